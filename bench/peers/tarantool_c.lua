-- Hands the command line to the contender in tarantool.c, which says how all is built and run.
package.loadlib(arg[1], 'luaopen_peer')(unpack(arg, 2))
