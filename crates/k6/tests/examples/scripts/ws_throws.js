import ws from 'k6/ws';
import { check } from 'k6';

export default function () {
  const thrown = (call) => {
    try {
      call();
    } catch (error) {
      return String(error);
    }
    return 'nothing';
  };
  const inSetup = thrown(() => ws.connect(__ENV.ECHO, () => { throw new Error('in setup'); }));
  const inMessage = thrown(() =>
    ws.connect(__ENV.ECHO, (socket) => {
      socket.on('open', () => socket.send('x'));
      socket.on('message', () => { throw new Error('in message'); });
    }));
  const inTimer = thrown(() =>
    ws.connect(__ENV.ECHO, (socket) => socket.setTimeout(() => { throw new Error('in timer'); }, 20)));
  check(null, {
    'setup': () => inSetup.includes('in setup'),
    'message': () => inMessage.includes('in message'),
    'timer': () => inTimer.includes('in timer'),
  });
}
