import ws from 'k6/ws';
import { check } from 'k6';

export default function () {
  const none = () => {};
  const plain = ws.connect(`ws://${__ENV.SITE}/status/404`, none);
  check(plain, { 'an answer of HTTP': (r) => r.status >= 200 && r.error === '' });
  const absent = ws.connect('ws://127.0.0.1:1/', none);
  check(absent, { 'no answer': (r) => r.status === 0 && r.error !== '' });
  let words = '';
  try {
    ws.connect(__ENV.ECHO);
  } catch (error) {
    words = String(error);
  }
  check(words, { 'arguments': (w) => w.includes('invalid number of arguments to ws.connect') });
}
