import { WebSocket } from 'k6/websockets';
import { check } from 'k6';
import { Counter } from 'k6/metrics';

const got = new Counter('got');
const closed = new Counter('closed');

export default function () {
  for (const name of ['a', 'b']) {
    const socket = new WebSocket(__ENV.ECHO, null, { tags: { name }, headers: { 'X-Name': name } });
    check(socket, { 'connecting': (s) => s.readyState === 0, 'url': (s) => s.url.startsWith(__ENV.ECHO) });
    socket.binaryType = 'arraybuffer';
    // A machine may be slow: what ends the socket comes behind all that is counted.
    let came = 0;
    const one = () => {
      came += 1;
      if (came === 3) setTimeout(() => socket.close(3001, 'enough'), 30);
    };
    socket.onopen = () => {
      check(socket, { 'open': (s) => s.readyState === 1 });
      socket.send(name);
      socket.send(new Uint8Array([7, 8]));
      socket.ping();
    };
    socket.addEventListener('message', (event) => {
      got.add(1);
      one();
      check(event, {
        'what was sent': (e) => e.data === name || (e.data instanceof ArrayBuffer && e.data.byteLength === 2),
        'type': (e) => e.type === 'message',
      });
    });
    socket.addEventListener('pong', () => {
      check(null, { 'pong': () => true });
      one();
    });
    socket.onclose = (event) => {
      closed.add(1);
      check(event, { 'code': (e) => e.code === 3001, 'closed': () => socket.readyState === 3 });
      let words = '';
      try {
        socket.send('late');
      } catch (error) {
        words = String(error);
      }
      check(words, { 'not open': (w) => w.includes('InvalidStateError') });
    };
  }
}
