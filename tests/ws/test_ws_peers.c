/*
 * WebSocket with peers that others have written: the library websockets of Python, and ws of Node.
 * Each peer is a small program in this file. A test is skipped if its peer is not installed.
 */
#include "support/peer_support.h"
#include "support/suite.h"
#include "ws/ws_support.h"

/* Debian's Python has the module. Another Python may come first in PATH. */
#define PYTHON "/usr/bin/python3"

static void end_peers(void)
{
    assert_nothing_pending();
}

FIXTURE(NULL, end_peers)

/* The messages of all peers: lengths around the limits of the header, text and binary. */
#define PYTHON_CLIENT                                                                            \
    "import asyncio, sys, websockets\n"                                                          \
    "from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory as D\n" \
    "texts = ['', 'a', 'h\\u00e9llo \\U0001f600 ' * 50, 'x' * 125, 'y' * 126, 'z' * 65536]\n"    \
    "blobs = [b'', bytes(range(256)) * 300, bytes(200000)]\n"                                    \
    "async def talk(url, extensions):\n"                                                         \
    "    async with websockets.connect(url, compression=None, extensions=extensions,\n"          \
    "                                  subprotocols=['v1', 'v2']) as ws:\n"                      \
    "        assert ws.subprotocol == 'v2', ws.subprotocol\n"                                    \
    "        holder = ws if hasattr(ws, 'extensions') else ws.protocol # since websockets 14\n"  \
    "        assert len(holder.extensions) == len(extensions), holder.extensions\n"              \
    "        for message in (texts + blobs) * 2:\n"                                              \
    "            await ws.send(message)\n"                                                       \
    "            assert await ws.recv() == message\n"                                            \
    "        async def parts():\n"                                                               \
    "            for i in range(100): yield 'part %d ' % i\n"                                    \
    "        await ws.send(parts())\n"                                                           \
    "        assert await ws.recv() == ''.join('part %d ' % i for i in range(100))\n"            \
    "        for i in range(10): await (await ws.ping(b'%d' % i))\n"                             \
    "    assert ws.close_code == 1000, ws.close_code\n"                                          \
    "async def main(url):\n"                                                                     \
    "    await talk(url, [])\n"                                                                  \
    "    for bits in [None, 9, 12, 15]:\n"                                                       \
    "        for server in [False, True]:\n"                                                     \
    "            for client in [False, True]:\n"                                                 \
    "                await talk(url, [D(server, client, bits, bits or True)])\n"                 \
    "    async with websockets.connect(url) as ws:\n"                                            \
    "        try:\n"                                                                             \
    "            await ws.send('x' * 2000000)\n"                                                 \
    "            await ws.recv()\n"                                                              \
    "        except websockets.ConnectionClosed as e: assert e.rcvd.code == 1009, e\n"           \
    "        else: assert False\n"                                                               \
    "asyncio.run(main(sys.argv[1]))\n"                                                           \
    "print('passed')\n"

#define PYTHON_SERVER                                                                            \
    "import asyncio, sys, websockets\n"                                                          \
    "from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory as D\n" \
    "def flag(i): return sys.argv[1][i] == '1'\n"                                                \
    "async def echo(ws):\n"                                                                      \
    "    await ws.ping(b'from the server')\n"                                                    \
    "    async for message in ws: await ws.send(message)\n"                                      \
    "async def main():\n"                                                                        \
    "    bits = 10 if flag(2) else None\n"                                                       \
    "    extensions = [D(flag(0), flag(1), bits, bits)] if not flag(3) else []\n"                \
    "    async with websockets.serve(echo, '127.0.0.1', 0, compression=None,\n"                  \
    "                                extensions=extensions, subprotocols=['v1']) as s:\n"        \
    "        print(s.sockets[0].getsockname()[1], flush=True)\n"                                 \
    "        await asyncio.Future()\n"                                                           \
    "asyncio.run(main())\n"

#define NODE_CLIENT                                                                             \
    "const WebSocket = require('/usr/share/nodejs/ws');\n"                                      \
    "const ws = new WebSocket(process.argv[1], ['v2'], {perMessageDeflate: {threshold: 0}});\n" \
    "const texts = ['', 'a', 'h\\u00e9llo '.repeat(1000), 'z'.repeat(100000)];\n"               \
    "let next = 0;\n"                                                                           \
    "ws.on('open', () => { ws.ping('p'); ws.send(texts[0]); });\n"                              \
    "let pongs = 0;\n"                                                                          \
    "ws.on('pong', () => pongs++);\n"                                                           \
    "ws.on('message', (data) => {\n"                                                            \
    "    if (data.toString() !== texts[next++]) process.exit(1);\n"                             \
    "    if (next < texts.length) ws.send(texts[next]); else ws.close(3000, 'enough');\n"       \
    "});\n"                                                                                     \
    "ws.on('close', (code, reason) => {\n"                                                      \
    "    if (code === 3000 && pongs === 1 && ws.protocol === 'v2') console.log('passed');\n"    \
    "});\n"

/* Return whether a program of a peer succeeds. */
static bool has_peer(const char *program, const char *option, const char *text)
{
    char *const argv[] = {(char *)program, (char *)option, (char *)text, NULL};
    int rc = weft_run(argv, NULL, 0, NULL, &output);
    weft_output_free(&output);
    if (rc != 0)
        printf("skipped: %s %s %s fails\n", program, option, text);
    return rc == 0;
}

static bool has_python(void)
{
    return has_peer(PYTHON, "-c", "import websockets");
}

/* Run a client of a peer against the echo server, in a process. */
static void run_client(const char *program, const char *option, const char *text)
{
    test_server server;
    echo_server = (echo_state){.options = {.protocols = "v2, v1"}};
    server_open(&server, echo, &echo_server, NULL);
    const char *url = format("ws://127.0.0.1:%d/", server_port(&server));
    char *const argv[] = {(char *)program, (char *)option, (char *)text, (char *)url, NULL};
    ck_assert_int_ge(weft_run(argv, NULL, 0, NULL, &output), 0);
    ck_assert_msg(strcmp(output.out, "passed\n") == 0, "%s%s", output.out, output.err);
    weft_output_free(&output);
    ck_assert_int_eq(server_close(&server), -ECANCELED);
}

TEST(the_client_of_python_talks_to_the_server)
{
    if (has_python())
        run_client(PYTHON, "-c", PYTHON_CLIENT);
}

TEST(the_client_of_node_talks_to_the_server)
{
    if (has_peer("node", "-e", "require('/usr/share/nodejs/ws')"))
        run_client("node", "-e", NODE_CLIENT);
}

/* Send texts and blobs to an echo server, in parts and whole. */
static void talk_to(const char *url, weft_ws_options options)
{
    static char data[200000];
    weft_ws *ws;
    weft_ws_message m;
    ck_assert_int_eq(weft_ws_connect(NULL, url, &options, &ws), 0);
    ck_assert_str_eq(weft_ws_protocol(ws), "v1");
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)('a' + byte_at(i) % 20);
    for (size_t bytes = 0; bytes < sizeof data; bytes = bytes * 3 + 1) {
        ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, data, bytes / 2, false), 0);
        ck_assert_int_eq(
            weft_ws_send_part(ws, WEFT_WS_TEXT, data + bytes / 2, bytes - bytes / 2, true), 0);
        ck_assert_int_eq(weft_ws_send(ws, WEFT_WS_BINARY, data, bytes), 0);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
            ck_assert_int_eq(m.kind, i == 0 ? WEFT_WS_TEXT : WEFT_WS_BINARY);
            ck_assert_uint_eq(m.bytes, bytes);
            ck_assert_int_eq(memcmp(m.data, data, bytes), 0);
        }
    }
    ck_assert_int_eq(weft_ws_close(ws, 1000, "enough"), 0);
    ck_assert_int_eq(weft_ws_close_code(ws), 1000);
    weft_ws_free(ws);
}

/* The flags are server_no_context_takeover, client_no_context_takeover, 10 bits, no compression. */
static void assert_python_server(const char *flags)
{
    weft_process process;
    char line[32];
    char *const argv[] = {PYTHON, "-c", PYTHON_SERVER, (char *)flags, NULL};
    const weft_process_options o = {.out = WEFT_STDIO_PIPE};
    ck_assert_int_eq(weft_spawn_process(&process, argv, &o), 0);
    ssize_t n = weft_read(process.out, line, sizeof line - 1);
    ck_assert_int_gt(n, 0);
    const char *url = format("ws://127.0.0.1:%d/", atoi(line));
    talk_to(url, (weft_ws_options){.protocols = "v1"});
    talk_to(url, (weft_ws_options){.protocols = "v1", .deflate_window_bits = 9});
    talk_to(url, (weft_ws_options){.protocols = "v1", .has_no_context_takeover = true});
    talk_to(url, (weft_ws_options){.protocols = "v1", .has_no_deflate = true});
    stop_process(&process);
}

TEST(the_client_talks_to_the_server_of_python)
{
    if (has_python())
        EACH_TEXT(assert_python_server, "0000", "1000", "0100", "1110", "0010", "0001");
}
