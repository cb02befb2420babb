// A server that tells of each request its method, its target and the bytes of its body: node seen.js PORT
const server = require("http").createServer((request, response) => {
  let count = 0;
  request.on("data", (bytes) => (count += bytes.length));
  request.on("end", () => {
    response.writeHead(200, { "X-Seen": `${request.method} ${request.url} ${count}`, "Content-Length": 0 });
    response.end();
  });
});
server.keepAliveTimeout = 600000;
server.listen(Number(process.argv[2]), "127.0.0.1");
