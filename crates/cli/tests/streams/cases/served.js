// A server of HTTP/2 over TLS that answers each request with a thousand bytes: node served.js PORT CERTIFICATE KEY
const { readFileSync } = require('node:fs')
const { createSecureServer } = require('node:http2')

const [port, cert, key] = process.argv.slice(2)
const content = 'x'.repeat(1024)
const server = createSecureServer({ cert: readFileSync(cert), key: readFileSync(key), allowHTTP1: true }, (request, response) => {
  response.end(content)
})
server.listen(Number(port), '127.0.0.1')
