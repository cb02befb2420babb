// A server whose responses stay open: node messages.js PORT [CERTIFICATE KEY]
// It echoes the messages of WebSockets, by extended CONNECT over HTTP/2 as well, and sends ten events to a client that asks for /events; all else is answered at once.
const { readFileSync } = require('node:fs')
const http = require('node:http')
const http2 = require('node:http2')

const [port, cert, key] = process.argv.slice(2)
const answer = (request, response) => {
  if (!request.url.startsWith('/events')) return response.end('short')
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  let left = 10
  const timer = setInterval(() => {
    response.write(`data: ${left}\n\n`)
    left -= 1
    if (left === 0) {
      clearInterval(timer)
      response.end()
    }
  }, 20)
}
const server = cert
  ? http2.createSecureServer({
      cert: readFileSync(cert), key: readFileSync(key), allowHTTP1: true, settings: { enableConnectProtocol: true }
    }, answer)
  : http.createServer(answer)
const echo = (socket) => {
  let input = Buffer.alloc(0)
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    input = Buffer.concat([input, bytes])
    for (;;) {
      if (input.length < 6) return
      const long = (input[1] & 127) === 126
      const length = long ? input.readUInt16BE(2) : input[1] & 127
      const head = long ? 8 : 6
      if (input.length < head + length) return
      const mask = input.subarray(head - 4, head)
      const content = Buffer.from(input.subarray(head, head + length).map((byte, at) => byte ^ mask[at % 4]))
      const opcode = input[0] & 15
      input = input.subarray(head + length)
      if (opcode === 8) return socket.end(Buffer.from([0x88, 0]))
      const lead = length < 126 ? Buffer.from([0x80 | opcode, length]) : Buffer.from([0x80 | opcode, 126, length >> 8, length & 255])
      socket.write(Buffer.concat([lead, content]))
    }
  })
}
server.on('upgrade', (request, socket) => {
  socket.setNoDelay(true)
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n')
  echo(socket)
})
server.on('connect', (request, response) => {
  response.stream.respond({ ':status': request.url.startsWith('/talk') ? 200 : 404 }, { endStream: !request.url.startsWith('/talk') })
  echo(response.stream)
})
server.listen(Number(port), '127.0.0.1')
