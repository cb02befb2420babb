// Speaks to messages.js over HTTP/2: node talk.js PORT MESSAGES
// A WebSocket by extended CONNECT (RFC 8441), whose messages wait for their echo, then a ping, and the end; and one that is
// refused.
const http2 = require('node:http2')

const [port, messages] = process.argv.slice(2).map(Number)
const mask = Buffer.from([1, 2, 3, 4])
const frame = (opcode, content) => {
  const lead = content.length < 126
    ? Buffer.from([0x80 | opcode, 0x80 | content.length])
    : Buffer.from([0x80 | opcode, 0xfe, content.length >> 8, content.length & 255])
  return Buffer.concat([lead, mask, content.map((byte, at) => byte ^ mask[at % 4])])
}
const session = http2.connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false })
const open = (path) => session.request(
  { ':method': 'CONNECT', ':protocol': 'websocket', ':path': path, 'sec-websocket-version': '13' }, { endStream: false })

session.on('remoteSettings', () => {
  const refused = open('/nothing?token=secret')
  refused.on('error', () => {})
  refused.end()
  refused.resume()
  const talk = open('/talk?token=secret')
  let told = 0
  let left = 0
  const next = () => {
    if (told === messages) return talk.write(frame(9, Buffer.from('there?')))
    const length = told % 2 ? 20 : 300
    left = (length < 126 ? 2 : 4) + length
    talk.write(frame(1, Buffer.alloc(length, 65)))
  }
  talk.on('response', next)
  talk.on('data', (bytes) => {
    if (told === messages) {
      // The echo of the ping, then that of the end.
      if ((bytes[0] & 15) === 9) talk.write(frame(8, Buffer.alloc(0)))
      else if ((bytes[0] & 15) === 8) talk.end()
      return
    }
    left -= bytes.length
    if (left > 0) return
    told += 1
    next()
  })
  talk.on('close', () => {
    session.close()
    process.exitCode = told === messages ? 0 : 1
  })
})
