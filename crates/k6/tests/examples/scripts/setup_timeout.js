import { sleep } from 'k6';

export const options = { setupTimeout: '1s', teardownTimeout: '30s' };

export function setup() {
  sleep(20);
}

export default function () {}
