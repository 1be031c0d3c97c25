import type { ConformanceTest } from "../conformance-test.ts";
import { expectEqual, expectThat, pauseFor } from "../verdict.ts";
import type { SeatedSocket } from "../workbench.ts";
import { deviceFrame, limitsOf, taskFrame } from "../workbench.ts";

const OUTCOMES = ["done", "failed", "declined", "sent_for_approval"] as const;

/** Frames of this many per turn of the order test. */
const ORDERED_FRAMES = 200;

export const taskTests: readonly ConformanceTest[] = [
  {
    id: "T1",
    title: "both seats may come first, and each hears of the other",
    async run(bench) {
      for (const [first, second] of [
        ["device", "mesh"],
        ["mesh", "device"],
      ] as const) {
        const room = await bench.open();
        const early = await bench.join(room, first);
        expectEqual(early.welcome.peer, "absent", `welcome.peer of the ${first} that comes first`);
        const late = await bench.join(room, second);
        expectEqual(late.welcome.peer, "joined", `welcome.peer of the ${second} that comes second`);
        await early.socket.peer("joined");
        const mesh = first === "mesh" ? early : late;
        const device = first === "mesh" ? late : early;
        if (first === "device") await mesh.socket.peer("joined");
        mesh.socket.send(taskFrame(1));
        await device.socket.next("task");
      }
    },
  },
  {
    id: "T2",
    title: "a task sent before the device joins is delivered when it joins",
    async run(bench) {
      const room = await bench.open();
      const mesh = await bench.join(room, "mesh");
      mesh.socket.send(taskFrame(1));
      await mesh.socket.next("ack", ({ seq }) => seq >= 1);
      const device = await bench.join(room, "device");
      expectEqual((await device.socket.next("task")).id, "conformance", "the id of the task");
    },
  },
  {
    id: "T3",
    title: "task, accepted, two times progress and reply arrive unchanged, numbered and acknowledged",
    async run(bench) {
      const { mesh, device } = await bench.joinBoth(await bench.open());
      const inputs = { text: "Ünïcödé \u{1f33f}", deep: { list: [1, 2.5, null, true] } };
      mesh.socket.send(taskFrame(1, { inputs, extra: { kept: true } }));
      await mesh.socket.next("ack", ({ seq }) => seq >= 1);
      const { seq: _seq, ...task } = await device.socket.next("task");
      const { seq: _sent, ...wanted } = taskFrame(1, { inputs });
      expectEqual(sorted(task), sorted(wanted), "the task as the device sees it");
      device.socket.send(deviceFrame("accepted", 1));
      device.socket.send(deviceFrame("progress", 2, { note: "half", pct: 50 }));
      device.socket.send(deviceFrame("progress", 3, { pct: 100 }));
      device.socket.send(deviceFrame("reply", 4, { data: { level: 71 } }));
      await mesh.socket.next("accepted");
      expectEqual((await mesh.socket.next("progress")).note, "half", "the note of the first progress");
      expectEqual((await mesh.socket.next("progress")).pct, 100, "the pct of the second progress");
      const reply = await mesh.socket.next("reply");
      expectEqual([reply.outcome, reply.data], ["done", { level: 71 }], "outcome and data of the reply");
      await device.socket.next("ack", ({ seq }) => seq >= 4);
      const numbers = mesh.socket.received.flatMap((frame) =>
        "seq" in frame && frame.type !== "ack" ? [frame.seq] : [],
      );
      expectEqual(
        numbers,
        numbers.map((_, index) => index + 1),
        "the sequence numbers towards the mesh",
      );
    },
  },
  {
    id: "T4",
    title: "each of the four outcomes is relayed",
    async run(bench) {
      for (const outcome of OUTCOMES) {
        const { mesh, device } = await bench.joinBoth(await bench.open());
        mesh.socket.send(taskFrame(1));
        await device.socket.next("task");
        device.socket.send(deviceFrame("reply", 1, { outcome, error: { code: "e", message: "m" } }));
        const reply = await mesh.socket.next("reply");
        expectEqual(
          [reply.outcome, reply.error],
          [outcome, { code: "e", message: "m" }],
          "outcome and error of the reply",
        );
      }
    },
  },
  {
    id: "T5",
    title: "a task and a reply of the announced frame size pass, one byte more is closed with 1009",
    async run(bench) {
      const { mesh, device } = await bench.joinBoth(await bench.open());
      const limits = limitsOf(mesh.welcome);
      const inputs = { text: "a".repeat(limits.inputs - '{"text":""}'.length) };
      mesh.socket.sendText(JSON.stringify(taskFrame(1, { inputs })).padEnd(limits.frame));
      const task = await device.socket.next("task");
      expectEqual(JSON.stringify(task.inputs).length, limits.inputs, "the size of the inputs");
      device.socket.send(deviceFrame("accepted", 1));
      device.socket.sendText(fill(deviceFrame("reply", 2, { data: "" }), limits.frame));
      const reply = await mesh.socket.next("reply");
      expectThat(typeof reply.data === "string" && reply.data.length > limits.frame - 200, "the reply's data was cut");

      const other = await bench.joinBoth(await bench.open());
      other.mesh.socket.send(taskFrame(1));
      await other.device.socket.next("task");
      other.device.socket.sendText(fill(deviceFrame("reply", 1, { data: "" }), limits.frame + 1));
      expectEqual((await other.device.socket.closed()).code, 1009, "the close code for one byte too many");
    },
  },
  {
    id: "T6",
    title: "a repeated sequence number is acknowledged and not relayed",
    async run(bench) {
      const { mesh, device } = await bench.joinBoth(await bench.open());
      mesh.socket.send(taskFrame(1));
      await mesh.socket.next("ack", ({ seq }) => seq === 1);
      mesh.socket.send(taskFrame(1));
      await mesh.socket.next("ack", ({ seq }) => seq === 1);
      await device.socket.quiet();
      expectEqual(countOf(device, "task"), 1, "tasks that reached the device");
    },
  },
  {
    id: "T7",
    title: "a gap in the sequence is closed with 4400",
    async run(bench) {
      const { mesh, device } = await bench.joinBoth(await bench.open());
      mesh.socket.send(taskFrame(2));
      expectEqual((await mesh.socket.closed()).code, 4400, "the close code for a gap");
      await device.socket.quiet();
      expectEqual(countOf(device, "task"), 0, "tasks that reached the device");
    },
  },
  {
    id: "T8",
    title: `the order of ${ORDERED_FRAMES} frames is kept`,
    async run(bench) {
      const { mesh, device } = await bench.joinBoth(await bench.open());
      const { rate, burst, buffer_frames } = limitsOf(mesh.welcome);
      mesh.socket.send(taskFrame(1));
      await device.socket.next("task");
      for (let seq = 1; seq <= ORDERED_FRAMES; seq++) {
        if (seq > burst / 2) await pauseFor(1100 / rate);
        if (seq % Math.max(1, Math.floor(buffer_frames / 2)) === 0) {
          await device.socket.next("ack", (ack) => ack.seq >= seq - 1, 10_000);
        }
        device.socket.send(deviceFrame("progress", seq, { note: String(seq) }));
      }
      const notes: (string | undefined)[] = [];
      while (notes.length < ORDERED_FRAMES) notes.push((await mesh.socket.next("progress")).note);
      expectEqual(
        notes,
        Array.from({ length: ORDERED_FRAMES }, (_, index) => String(index + 1)),
        "the order of the frames",
      );
    },
  },
];

function countOf({ socket }: SeatedSocket, type: string): number {
  return socket.received.filter((frame) => frame.type === type).length;
}

/** The frame as JSON of exactly `bytes` bytes, its empty `data` filled up. */
function fill(frame: Readonly<Record<string, unknown>>, bytes: number): string {
  const missing = bytes - JSON.stringify(frame).length;
  return JSON.stringify({ ...frame, data: "a".repeat(missing) });
}

function sorted(value: Readonly<Record<string, unknown>>): unknown {
  return Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)));
}
