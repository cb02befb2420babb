import http from 'k6/http';
import { check } from 'k6';

export default function () {
  for (const address of ['https://a.weir.test/get', 'https://b.c.weir.test/get', 'http://plain.weir.test/get', 'http://x.y.plain.test/get']) {
    check(http.get(address), { 'answered': (r) => r.status === 200, [`as ${address}`]: (r) => r.url === address });
  }
}
