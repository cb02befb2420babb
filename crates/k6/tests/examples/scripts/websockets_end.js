import { WebSocket } from 'k6/websockets';
import { check } from 'k6';
import { Counter } from 'k6/metrics';

const events = new Counter('events');

export default async function () {
  const absent = new WebSocket('ws://127.0.0.1:1/');
  absent.onerror = (event) => {
    events.add(1);
    check(event, { 'an error': (e) => e.type === 'error' && e.error.length > 0 });
  };
  absent.onclose = () => events.add(10);
  const socket = new WebSocket(__ENV.ECHO);
  await new Promise((resolve) => { socket.onopen = resolve; });
  // A Blob that the script makes cannot be sent by k6 1.8.
  socket.send(new Uint8Array([97, 98, 99]).buffer);
  const event = await new Promise((resolve) => { socket.onmessage = resolve; });
  const text = await event.data.text();
  check(text, { 'a blob': (t) => t === 'abc' });
  let words = '';
  try {
    socket.close(1001);
  } catch (error) {
    words = String(error);
  }
  check(words, { 'codes': (w) => w.includes('InvalidAccessError') });
  socket.close();
  await new Promise((resolve) => { socket.onclose = resolve; });
  check(socket, { 'closed': (s) => s.readyState === 3 });
}
