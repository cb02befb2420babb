import http from 'k6/http';
import ws from 'k6/ws';
import { check, group } from 'k6';
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';

const counter = new Counter('my_counter');
const gauge = new Gauge('my_gauge');
const rate = new Rate('my_rate');
const trend = new Trend('my_trend', true);

export const options = { iterations: 2, thresholds: { my_trend: ['avg<100'] } };

export function setup() {
  http.get(`http://${__ENV.SITE}/get`);
}

export default function () {
  check(http.get(`http://${__ENV.SITE}/get?a=b`, { tags: { name: 'named', mine: 'a,"b' } }), { 'is 200': (r) => r.status === 200 });
  group('outer', () => {
    group('inner', () => http.post(`http://${__ENV.SITE}/post`, 'x'));
    counter.add(3, { more: 'tags' });
    gauge.add(7);
    rate.add(true);
    trend.add(2.5);
  });
  http.get(`http://${__ENV.SITE}/status/404`);
  http.get('http://127.0.0.1:1/');
  ws.connect(__ENV.ECHO, { tags: { mine: 'socket' } }, (socket) => {
    socket.on('open', () => socket.send('x'));
    socket.on('message', () => socket.close());
  });
}
