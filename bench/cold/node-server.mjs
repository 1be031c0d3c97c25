// The floor: what Node itself needs to answer.
import { createServer } from "node:http";

createServer((_request, response) => response.end("ready")).listen(Number(process.env.PORT), "127.0.0.1");
