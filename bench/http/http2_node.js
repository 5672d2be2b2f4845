// Hello world on Node's http2 module, in one process. usage: http2_node.js PORT [CERT KEY]
"use strict";

const fs = require("fs");
const http2 = require("http2");

const BACKLOG = 4096;
const body = "Hello, world\n";

function hello(stream) {
    stream.respond({":status": 200, "content-type": "text/plain", "content-length": body.length});
    stream.end(body);
}

const [port, cert, key] = process.argv.slice(2);
const server = cert
    ? http2.createSecureServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key), minVersion: "TLSv1.3"})
    : http2.createServer();
server.on("stream", hello);
server.listen({host: "127.0.0.1", port: Number(port), backlog: BACKLOG});
