/** The mesh's route for rooms whose devices ask it to vouch for them, and nothing else of a mesh. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { randomId, roomCallbackSchema } from "@leafmesh/protocol";
import { createRoomCallbackHub, ROOM_CALLBACK_PATH } from "@leafmesh/rooms";
import type { RoomDefinition } from "@leafmesh/rooms/contract";

const STATUS = { vouched: 200, noted: 204, bad_token: 401, wrong_channel: 403, taken: 409, over: 410 } as const;

export interface CallbackServer {
  /** The same provider, whose rooms are called back here. */
  around(room: RoomDefinition): RoomDefinition;
  close(): Promise<void>;
}

export async function startCallbackServer(): Promise<CallbackServer> {
  const server = createServer(async (request, response) => {
    const id = request.url?.slice(`${ROOM_CALLBACK_PATH}/`.length) ?? "";
    const callback = roomCallbackSchema.parse(await readJson(request));
    const answer = hub.answer(id, request.headers.authorization?.slice("Bearer ".length), callback);
    response.writeHead(answer ? STATUS[answer.status] : 404);
    response.end(answer?.status === "vouched" ? JSON.stringify(answer.voucher) : undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const hub = createRoomCallbackHub({ newId: randomId, address: () => `http://127.0.0.1:${port}` });
  return {
    around: (room) => ({
      ...room,
      create: (options, dependencies) => room.create(options, { ...dependencies, callbacks: hub }),
    }),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}
