import { check, sleep } from 'k6';
import exec from 'k6/execution';

export const options = {
  scenarios: {
    short: { executor: 'constant-vus', vus: 3, duration: '1s', gracefulStop: '0s' },
    later: { executor: 'shared-iterations', startTime: '2s', exec: 'later' },
  },
};

export default function () {
  sleep(30);
}

export function later() {
  check(exec.instance, { 'three are cut': (i) => i.iterationsInterrupted === 3, 'none is whole': (i) => i.iterationsCompleted === 0 });
}
