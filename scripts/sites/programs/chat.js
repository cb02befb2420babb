// A chat over WebSockets, and server-sent events, as scripts/test-sites puts it behind the server.
'use strict';
const http = require('http');
const { WebSocketServer } = require('ws');

const page = `<!doctype html><title>Chat</title><link rel=icon href=data:,>
<h1>Chat</h1><form><input name=word><button>Say</button></form><ul></ul>
<script>
const socket = window.socket = new WebSocket(location.origin.replace('http', 'ws') + '/chat');
socket.onmessage = event => { document.querySelector('ul').append(Object.assign(document.createElement('li'), { textContent: event.data })); };
document.querySelector('form').onsubmit = event => { event.preventDefault(); socket.send(event.target.word.value); event.target.reset(); };
window.ticks = 0; window.gaps = []; let last;
const events = window.events = new EventSource('/ticks');
events.onmessage = () => { const now = performance.now(); if (last) window.gaps.push(now - last); last = now; window.ticks += 1; };
</script>`;

const chat = new WebSocketServer({ noServer: true });
chat.on('connection', (socket) => {
  socket.on('message', (word) => { for (const one of chat.clients) one.send(word.toString()); });
});
const others = new WebSocketServer({ noServer: true });

const server = http.createServer((request, response) => {
  if (request.url === '/people') {
    response.end(String(chat.clients.size));
  } else if (request.url === '/ticks') {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    const timer = setInterval(() => response.write('data: tick\n\n'), 200);
    response.on('close', () => clearInterval(timer));
  } else {
    response.setHeader('Content-Type', 'text/html; charset=utf-8');
    response.end(page);
  }
});
server.on('upgrade', (request, socket, head) => {
  if (request.url === '/chat') {
    chat.handleUpgrade(request, socket, head, (one) => chat.emit('connection', one));
  } else if (request.url === '/echo') {
    others.handleUpgrade(request, socket, head, (one) => one.on('message', (data) => one.send(data)));
  } else if (request.url === '/leave') {
    others.handleUpgrade(request, socket, head, (one) => one.close(4321, 'go home'));
  } else {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  }
});
server.listen(Number(process.env.PORT), '127.0.0.1');
