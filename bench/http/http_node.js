// Hello world on Node's http module, in one process. usage: http_node.js PORT [CERT KEY]
"use strict";

const constants = require("crypto").constants;
const fs = require("fs");
const http = require("http");
const https = require("https");

const BACKLOG = 4096;
const body = "Hello, world\n";

function hello(request, response) {
    response.setHeader("Content-Type", "text/plain");
    response.setHeader("Content-Length", body.length);
    response.end(body);
}

function makeServer(cert, key) {
    if (!cert)
        return http.createServer(hello);
    return https.createServer({
        cert: fs.readFileSync(cert),
        key: fs.readFileSync(key),
        minVersion: "TLSv1.3",
        // Handshakes are measured: disable session resumption.
        secureOptions: constants.SSL_OP_NO_TICKET,
        sessionTimeout: 1,
    }, hello);
}

const [port, cert, key] = process.argv.slice(2);
const server = makeServer(cert, key);
server.keepAliveTimeout = 75000;
server.listen({host: "127.0.0.1", port: Number(port), backlog: BACKLOG});
