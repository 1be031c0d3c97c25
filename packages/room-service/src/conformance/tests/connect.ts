import type { ConformanceTest } from "../conformance-test.ts";
import { RefusedUpgrade } from "../test-socket.ts";
import { expectEqual, expectOneOf, expectThat, Failure, pauseFor } from "../verdict.ts";
import { deviceFrame, limitsOf, taskFrame } from "../workbench.ts";

export const connectTests: readonly ConformanceTest[] = [
  {
    id: "W1",
    title: "a socket without the subprotocol is answered HTTP 426",
    async run(bench) {
      const room = await bench.open();
      for (const protocol of [null, "leafmesh.room.v999"]) {
        try {
          await bench.connect(room, { protocol });
        } catch (error) {
          if (!(error instanceof RefusedUpgrade)) throw error;
          expectEqual(error.status, 426, `the status of an upgrade that offers ${protocol ?? "no subprotocol"}`);
          continue;
        }
        throw new Failure(`an upgrade that offers ${protocol ?? "no subprotocol"} must not be accepted`);
      }
    },
  },
  {
    id: "W2",
    title: "a client that says nothing is closed with 4408 within 7 s",
    async run(bench) {
      const socket = await bench.connect(await bench.open());
      const { code } = await socket.closed(7000);
      expectEqual(code, 4408, "the close code for a silent client");
    },
  },
  {
    id: "W3",
    title: "a bad, foreign, expired or used token is refused with 4401 or 4409",
    async run(bench) {
      const room = await bench.open({ join_within_s: 5 });
      const expiredBy = pauseFor(6500);
      const middle = Math.floor(room.device_token.length / 2);
      const swapped = room.device_token[middle] === "A" ? "B" : "A";
      const damaged = `${room.device_token.slice(0, middle)}${swapped}${room.device_token.slice(middle + 1)}`;
      for (const token of [damaged, "nonsense", ""]) {
        expectEqual(await bench.refusedWith(room, { token }), 4401, "the close code for a bad token");
      }

      const [one, other] = [await bench.open(), await bench.open()];
      const stranger = await bench.connect(other);
      stranger.hello({ token: one.device_token });
      const answer = await Promise.race([
        stranger.next("welcome").catch(() => undefined),
        stranger.closed().then(() => undefined),
      ]);
      expectThat(answer?.room !== other.room_id, "a token of one room must not open another");

      const used = await bench.open();
      const { socket } = await bench.join(used, "device");
      await socket.drop();
      expectEqual(await bench.refusedWith(used, { token: used.device_token }), 4409, "the close code for a used token");

      await expiredBy;
      const expired = await bench.refusedWith(room, { token: room.device_token });
      expectOneOf(expired, [4401, 4409], "the close code for an expired token");
    },
  },
  {
    id: "W4",
    title: "a second device is refused with 4409 and the first stays",
    async run(bench) {
      const room = await bench.open();
      const { device } = await bench.joinBoth(room);
      expectEqual(
        await bench.refusedWith(room, { token: room.device_token }),
        4409,
        "the close code for the second device",
      );
      await device.socket.quiet();
    },
  },
  {
    id: "W5",
    title: "a binary, malformed or unknown frame is closed with 4400; an x- frame is ignored",
    async run(bench) {
      const frames: readonly (readonly [name: string, text: string | Uint8Array])[] = [
        ["a binary frame", new TextEncoder().encode(JSON.stringify({ type: "ping" }))],
        ["a frame that is not JSON", "{"],
        ["a frame that is not an object", "[]"],
        ["a frame of an unknown type", JSON.stringify({ type: "unheard-of" })],
        ["a task without an id", JSON.stringify({ type: "task", seq: 1 })],
        ["a sequence number of 0", JSON.stringify(taskFrame(0))],
      ];
      for (const [name, frame] of frames) {
        const { socket } = await bench.join(await bench.open(), "mesh");
        if (typeof frame === "string") socket.sendText(frame);
        else socket.sendBinary(frame);
        expectEqual((await socket.closed()).code, 4400, `the close code for ${name}`);
      }
      const { socket } = await bench.join(await bench.open(), "mesh");
      socket.send({ type: "x-unheard-of", anything: 1 });
      await socket.quiet();
    },
  },
  {
    id: "W6",
    title: "a frame over the announced size is closed with 1009",
    async run(bench) {
      const { socket, welcome } = await bench.join(await bench.open(), "mesh");
      socket.send({ type: "x-large", text: "a".repeat(limitsOf(welcome).frame) });
      expectEqual((await socket.closed()).code, 1009, "the close code for an oversize frame");
    },
  },
  {
    id: "W7",
    title: "a frame of the other seat is closed with 4403",
    async run(bench) {
      const { mesh, device } = await bench.joinBoth(await bench.open());
      device.socket.send(taskFrame(1));
      expectEqual((await device.socket.closed()).code, 4403, "the close code for a task from the device");
      mesh.socket.send(deviceFrame("reply", 1));
      expectEqual((await mesh.socket.closed()).code, 4403, "the close code for a reply from the mesh");
    },
  },
  {
    id: "W8",
    title: "a second hello on one socket is closed with 4400",
    async run(bench) {
      const room = await bench.open();
      const { socket } = await bench.join(room, "mesh");
      socket.hello({ token: room.mesh_token });
      expectEqual((await socket.closed()).code, 4400, "the close code for a second hello");
    },
  },
];
