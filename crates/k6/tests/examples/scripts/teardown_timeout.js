import { sleep } from 'k6';

export const options = { setupTimeout: '30s', teardownTimeout: '1s' };

export function setup() {
  sleep(1.5);
}

export default function () {}

export function teardown() {
  sleep(20);
}
