// Echoes messages by the library ws, with permessage-deflate on offer, at a port that the kernel gives; prints the port.
const { WebSocketServer } = require("ws");
const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: true, maxPayload: 1 << 28 }, () => {
  console.log(server.address().port);
});
server.on("connection", (socket) => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
