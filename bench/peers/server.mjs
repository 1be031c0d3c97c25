// One peer behind the smallest HTTP server there is: POST / with { message } answers { reply }.
// Environment: LOOP (a file of loops/), MODEL_URL. Prints one line of JSON with its address.
import { createServer } from "node:http";

const { create } = await import(`./loops/${process.env.LOOP}.mjs`);
const turn = await create({ baseURL: process.env.MODEL_URL });

const server = createServer((request, response) => {
  let text = "";
  request.setEncoding("utf8");
  request.on("data", (piece) => {
    text += piece;
  });
  request.on("end", async () => {
    try {
      const body = JSON.stringify({ reply: await turn(JSON.parse(text).message) });
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
      response.end(body);
    } catch (error) {
      response.writeHead(500, { "content-type": "text/plain" });
      response.end(String(error));
    }
  });
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}/` }));
});
