import type { ConformanceTest } from "../conformance-test.ts";
import type { TestSocket } from "../test-socket.ts";
import { expectEqual, expectOneOf } from "../verdict.ts";
import { deviceFrame, taskFrame } from "../workbench.ts";

export const closeTests: readonly ConformanceTest[] = [
  {
    id: "X1",
    title: "DELETE closes both seats with `closing` and 4000",
    async run(bench) {
      const room = await bench.open();
      const { mesh, device } = await bench.joinBoth(room);
      await bench.delete(room.room_id);
      for (const { socket } of [mesh, device]) await expectEnd(socket, "closed", 4000);
    },
  },
  {
    id: "X2",
    title: "the end of its time closes a room with `closing` and 4010",
    async run(bench) {
      const room = await bench.open({ ttl_s: 10, join_within_s: 5 });
      const { mesh, device } = await bench.joinBoth(room);
      for (const { socket } of [mesh, device]) await expectEnd(socket, "expired", 4010, 13_000);
      expectEqual((await bench.status(room)).state, "closed", "state of GET after the end");
    },
  },
  {
    id: "X3",
    title: "after the end every token and resume key of the room is dead",
    async run(bench) {
      const unused = await bench.open();
      const room = await bench.open();
      const { mesh, device } = await bench.joinBoth(room);
      for (const { room_id } of [unused, room]) await bench.delete(room_id);
      await Promise.all([mesh.socket.closed(), device.socket.closed()]);
      for (const token of [unused.mesh_token, unused.device_token]) {
        expectOneOf(await bench.refusedWith(unused, { token }), [4000, 4401, 4404, 4409], "the code for a dead token");
      }
      for (const { welcome, socket } of [mesh, device]) {
        const code = await bench.refusedWith(room, { resume: { key: welcome.resume_key, recv: socket.lastSeq } });
        expectOneOf(code, [4000, 4404, 4409], "the code for a dead resume key");
      }
      const answer = await bench.call("POST", `/v1/rooms/${room.room_id}/device-token`);
      expectOneOf(answer.status, [404, 410], "the status of POST …/device-token for a closed room");
    },
  },
  {
    id: "X4",
    title: "nothing follows `closing`",
    async run(bench) {
      const room = await bench.open();
      const { mesh, device } = await bench.joinBoth(room);
      mesh.socket.send(taskFrame(1));
      await device.socket.next("task");
      for (let seq = 1; seq <= 10; seq++) device.socket.send(deviceFrame("progress", seq));
      const deleted = bench.delete(room.room_id);
      for (let seq = 11; seq <= 20; seq++) device.socket.send(deviceFrame("progress", seq));
      await deleted;
      for (const { socket } of [mesh, device]) await expectEnd(socket, "closed", 4000);
    },
  },
];

async function expectEnd(socket: TestSocket, reason: string, code: number, withinMs?: number): Promise<void> {
  const close = await socket.closed(withinMs);
  const last = socket.received.at(-1);
  expectEqual(last?.type, "closing", "the last frame before the close");
  expectEqual<unknown>(last?.type === "closing" && last.reason, reason, "closing.reason");
  expectEqual(close.code, code, "the close code");
}
