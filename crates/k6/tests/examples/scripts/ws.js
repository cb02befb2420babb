import ws from 'k6/ws';
import { check, group } from 'k6';
import { Counter } from 'k6/metrics';

const texts = new Counter('texts');
const bytes = new Counter('bytes');
const pongs = new Counter('pongs');
const ticks = new Counter('ticks');
const closes = new Counter('closes');

export default function () {
  const url = `${__ENV.ECHO}/chat?a=b`;
  let order = '';
  const response = group('talk', () =>
    ws.connect(url, { headers: { 'X-Mine': 'yes' }, tags: { kind: 'talk' } }, (socket) => {
      order += 'setup ';
      socket.on('open', () => {
        order += 'open ';
        socket.send('first');
        socket.send(12345);
        socket.sendBinary(new Uint8Array([1, 2, 255]).buffer);
        socket.ping();
      });
      socket.on('message', (text) => {
        texts.add(1);
        check(text, { 'an echo': (t) => t === 'first' || t === '12345' || t === 'late' });
        if (text === 'late') socket.close(4001);
      });
      socket.on('binaryMessage', (data) => {
        bytes.add(data.byteLength);
        check(data, { 'bytes': (d) => d instanceof ArrayBuffer && new Uint8Array(d)[2] === 255 });
      });
      socket.on('pong', () => pongs.add(1));
      let ticked = 0;
      socket.setInterval(() => {
        ticked += 1;
        if (ticked > 3) return;
        ticks.add(1);
        // A machine may be slow: what ends the session comes behind all that is counted.
        if (ticked === 3) socket.setTimeout(() => socket.send('late'), 50);
      }, 50);
      socket.on('close', (code) => {
        closes.add(1);
        check(code, { 'own code': (c) => c === 4001 });
      });
    }));
  check(response, {
    'status is 101': (r) => r.status === 101,
    'upgraded': (r) => r.headers['Upgrade'].toLowerCase() === 'websocket',
    'url': (r) => r.url === url,
    'in order': () => order === 'setup open ',
  });
}
