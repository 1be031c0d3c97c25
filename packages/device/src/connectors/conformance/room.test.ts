import { type Ring, Secret } from "@leafmesh/protocol";
import { type RoomServer, serveRooms } from "@leafmesh/room-service";
import { customRoom } from "@leafmesh/rooms";
import { type RoomServiceUnderTest, testRoom } from "@leafmesh/testkit/suites";
import { startTcpProxy, type TcpProxy } from "@leafmesh/testkit/tcp-proxy";
import { createDevices } from "../../../testing/conformance/devices.ts";
import { intrudeOverSocket } from "../../../testing/conformance/intruder.ts";
import { watched } from "../../../testing/conformance/opened-rooms.ts";
import { startRefusingFront } from "../../../testing/conformance/refusing-front.ts";
import { shiftedClock } from "../../../testing/conformance/shifted-clock.ts";
import { socketLink } from "../../../testing/conformance/socket-link.ts";

const KEY = "the-mesh-key-of-the-room-service";
/** How a service refuses to open a room. */
const STATUS: Readonly<Record<string, number>> = { bad_credential: 401, plan_limit: 402, rate: 429 };
const headers = { authorization: `Bearer ${KEY}` };

/** Devices do not pass the proxy, which lies between the mesh and its service. */
async function start(): Promise<RoomServiceUnderTest> {
  const { clock, forward } = shiftedClock();
  let proxy: TcpProxy | undefined;
  const server = await serveRooms({
    ...{ host: "127.0.0.1", port: 0, apiKeys: [new Secret(KEY)], limits: { grace_s: 1 }, clock },
    get publicUrl() {
      return proxy && `http://127.0.0.1:${proxy.port}`;
    },
  });
  const front = await startRefusingFront(Number(new URL(server.url).port));
  const between = await startTcpProxy(front.port);
  proxy = between;
  const around = <Join extends Ring["join"]>(join: Join): Join => ({
    ...join,
    url: `${server.url.replace("http", "ws")}/v1/connect`,
  });
  const devices = createDevices(["room"], async () => socketLink(around));
  const { definition, opened } = watched(customRoom);
  const record = { url: `http://127.0.0.1:${between.port}`, api_key: KEY };
  return {
    definition,
    record,
    secrets: [KEY],
    connector: devices.connector,
    cut: devices.cut,
    restore: (ring) => devices.in(ring).restore(),
    inject: (ring, from, text) =>
      from === "device" ? devices.in(ring).say(text) : intrudeOverSocket(around(ring.join), text),
    repeat: (ring) => devices.in(ring).repeat(),
    expire: () => forward(600_000),
    async end({ join }) {
      await fetch(`${server.url}/v1/rooms/${join.room}`, { method: "DELETE", headers });
    },
    stall() {
      between.set({ stallUp: true, stallDown: true });
      return () => between.set({ stallUp: false, stallDown: false });
    },
    refuse(phase, how) {
      const status = phase === "open" ? STATUS[how] : undefined;
      if (status === undefined) return undefined;
      front.refuse(status);
      return () => front.refuse(undefined);
    },
    refuseCheck(how) {
      if (how === "failing") return { ...record, api_key: "another-key" };
      between.block();
      return record;
    },
    tasksTaken: () => tasksOf(server, opened),
    async close() {
      await devices.close();
      await between.stop();
      await front.close();
      await server.close();
    },
  };
}

async function tasksOf({ url }: RoomServer, opened: readonly Ring["join"][]): Promise<number> {
  const rooms = await Promise.all(
    opened.map(({ room }) => fetch(`${url}/v1/rooms/${room}`, { headers }).then((answer) => answer.json())),
  );
  return rooms.filter(({ task }) => task.handed).length;
}

testRoom("room", start, {
  holdsTask: true,
  cannot: {
    secondHolder: "a token is used once",
    stranger: "who has no token is not let in",
  },
});
