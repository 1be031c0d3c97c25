import { serveRooms } from "@leafmesh/room-service";
import { leafmeshRooms } from "@leafmesh/rooms";
import { type RoomServiceUnderTest, testRoom } from "@leafmesh/testkit/suites";
import { createDevices } from "../../../testing/conformance/devices.ts";
import { intrudeOverSocket } from "../../../testing/conformance/intruder.ts";
import { shiftedClock } from "../../../testing/conformance/shifted-clock.ts";
import { socketLink } from "../../../testing/conformance/socket-link.ts";

async function start(): Promise<RoomServiceUnderTest> {
  const { clock, forward } = shiftedClock();
  const server = await serveRooms({ host: "127.0.0.1", port: 0, limits: { grace_s: 1 }, clock });
  const devices = createDevices(["leafmesh"], async () => socketLink());
  const rooms = new Map<string, { close(): void }>();
  let isFull = false;
  let tasks = 0;
  const definition = leafmeshRooms(() => ({
    async openLocal(request) {
      if (isFull) throw new Error("it holds as many rooms as it may");
      const room = await server.service.openLocal(request);
      rooms.set(room.roomId, room);
      const send: typeof room.send = (envelope) => {
        const seq = room.send(envelope);
        if (envelope.type === "task" && seq !== undefined) tasks++;
        return seq;
      };
      const { roomId, connectUrl, deviceToken, limits } = room;
      return { roomId, connectUrl, deviceToken, limits, send, close: () => room.close() };
    },
  }));
  return {
    definition,
    record: {},
    secrets: [],
    connector: devices.connector,
    cut: devices.cut,
    restore: (ring) => devices.in(ring).restore(),
    inject: (ring, from, text) => (from === "device" ? devices.in(ring).say(text) : intrudeOverSocket(ring.join, text)),
    repeat: (ring) => devices.in(ring).repeat(),
    expire: () => forward(600_000),
    end: ({ join }) => rooms.get(join.room)?.close(),
    refuse: () => undefined,
    refuseCheck() {
      isFull = true;
      return {};
    },
    tasksTaken: () => tasks,
    async close() {
      await devices.close();
      await server.close();
    },
  };
}

testRoom("leafmesh", start, {
  holdsTask: true,
  cannot: {
    secondHolder: "a token is used once",
    stranger: "who has no token is not let in",
    stall: "between a mesh and its own rooms there is no network",
    readable: "a service in the same process can always be asked",
  },
});
