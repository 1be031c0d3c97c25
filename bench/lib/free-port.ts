import { createServer } from "node:net";

/** A port that nobody listens on, at least a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((answer, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => answer(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
