-- Pass the command line to the contender in tarantool.c, which describes its build and its use.
package.loadlib(arg[1], 'luaopen_peer')(unpack(arg, 2))
