// Echo WebSocket messages with the package ws on Node, in one process. usage: ws_node.js PORT
"use strict";

const http = require("http");
const {WebSocketServer} = require("ws");

const BACKLOG = 4096;

const server = http.createServer();
const ws = new WebSocketServer({server});
ws.on("connection", (socket) => {
    socket.on("message", (message, isBinary) => socket.send(message, {binary: isBinary}));
    socket.on("error", () => socket.terminate());
});
server.listen({host: "127.0.0.1", port: Number(process.argv[2]), backlog: BACKLOG});
