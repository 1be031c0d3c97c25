import type { ConformanceTest } from "../conformance-test.ts";
import { expectEqual, expectThat, pauseFor, Skipped } from "../verdict.ts";
import { deviceFrame, limitsOf, taskFrame } from "../workbench.ts";

const PARALLEL_ROOMS = 100;
/** The longest that a receiver may leave a full buffer standing, plus what a service may be late. */
const DRAIN_MS = 13_000;
const MOST_TO_FLOOD = 5000;

export const abuseTests: readonly ConformanceTest[] = [
  {
    id: "A1",
    title: "frames over the announced rate get an `error`, then 4529",
    async run(bench) {
      const { socket, welcome } = await bench.join(await bench.open(), "mesh");
      const { rate, burst } = limitsOf(welcome);
      const frames = Math.ceil(burst + rate * 2 + 20);
      if (frames > MOST_TO_FLOOD) throw new Skipped(`rate ${rate} and burst ${burst} are too high to be exceeded here`);
      for (let n = 0; n < frames && socket.isOpen; n++) socket.send({ type: "ping", n });
      await socket.next("error");
      expectEqual((await socket.closed()).code, 4529, "the close code");
    },
  },
  {
    id: "A2",
    title: "a receiver that does not drain stops its sender, then is closed with 4513 and may resume",
    async run(bench) {
      const room = await bench.open({ ttl_s: 120 });
      const mesh = await bench.join(room, "mesh", { alive: false });
      const device = await bench.join(room, "device");
      const { rate, burst, buffer_frames, idle_s } = limitsOf(mesh.welcome);
      if (buffer_frames > MOST_TO_FLOOD)
        throw new Skipped(`buffer_frames ${buffer_frames} is too much to be filled here`);
      mesh.socket.send(taskFrame(1));
      await device.socket.next("task");
      // It does not read, but it lives: what is tested is the buffer, not the silence.
      const heartbeat = setInterval(() => mesh.socket.send({ type: "ping" }), Math.min(1000, idle_s * 500));
      mesh.socket.stopReading();
      const most = buffer_frames + burst;
      const frames = most + 20;
      try {
        for (let seq = 1; seq <= frames; seq++) {
          if (seq > burst / 2) await pauseFor(1100 / rate);
          device.socket.send(deviceFrame("progress", seq, { note: String(seq) }));
        }
        await device.socket.peer("away", DRAIN_MS);
      } finally {
        clearInterval(heartbeat);
      }
      const taken = device.socket.received.reduce((highest, frame) => {
        return frame.type === "ack" ? Math.max(highest, frame.seq) : highest;
      }, 0);
      expectThat(
        taken <= most,
        `a service that announces a buffer of ${buffer_frames} frames took ${taken} for a mesh that reads nothing`,
      );
      mesh.socket.goOnReading();
      expectEqual((await mesh.socket.closed()).code, 4513, "the close code of the receiver");
      const back = await bench.resume(room, mesh.welcome.resume_key, mesh.socket.lastSeq);
      const seen = () =>
        [...mesh.socket.received, ...back.socket.received].filter(({ type }) => type === "progress").length;
      while (seen() < frames) await back.socket.next("progress", undefined, 10_000);
      expectEqual(seen(), frames, "frames that arrived in the end");
    },
  },
  {
    id: "A3",
    title: `${PARALLEL_ROOMS} rooms at once do not mix`,
    async run(bench) {
      const ask = async (number: number): Promise<void> => {
        const { mesh, device } = await bench.joinBoth(await bench.open());
        const id = `ask-${number}`;
        mesh.socket.send(taskFrame(1, { id, inputs: { number } }));
        const task = await device.socket.next("task", undefined, 20_000);
        expectEqual([task.id, task.inputs.number], [id, number], "id and inputs of the task");
        device.socket.send(deviceFrame("reply", 1, { id, data: number * 2 }));
        const reply = await mesh.socket.next("reply", undefined, 20_000);
        expectEqual([reply.id, reply.data], [id, number * 2], "id and data of the reply");
      };
      await Promise.all(Array.from({ length: PARALLEL_ROOMS }, (_, number) => ask(number)));
    },
  },
];
