import type { ConformanceTest } from "../conformance-test.ts";
import { expectEqual, expectOneOf, expectThat, Skipped } from "../verdict.ts";
import { deviceFrame, limitsOf, taskFrame } from "../workbench.ts";

/** How much later than announced a service may notice something. */
const LATENESS_MS = 2000;
/** Longer waits than this are not worth a test run; a service may announce shorter times for it. */
const LONGEST_WAIT_S = 120;

export const lossTests: readonly ConformanceTest[] = [
  {
    id: "L1",
    title: "a device that drops before the task gets it once after it resumes",
    async run(bench) {
      const room = await bench.open();
      const { mesh, device } = await bench.joinBoth(room);
      await device.socket.quiet();
      await device.socket.drop();
      await mesh.socket.peer("away", LATENESS_MS);
      mesh.socket.send(taskFrame(1));
      await mesh.socket.next("ack", ({ seq }) => seq >= 1);
      const back = await bench.resume(room, device.welcome.resume_key, device.socket.lastSeq);
      await mesh.socket.peer("back");
      await back.socket.next("task");
      await back.socket.quiet();
      expectEqual(back.socket.received.filter(({ type }) => type === "task").length, 1, "tasks after the resume");
    },
  },
  {
    id: "L2",
    title: "a reply finished while the device was away arrives once after it resumes",
    async run(bench) {
      const room = await bench.open();
      const { mesh, device } = await bench.joinBoth(room);
      mesh.socket.send(taskFrame(1));
      await device.socket.next("task");
      device.socket.send(deviceFrame("accepted", 1));
      await device.socket.next("ack", ({ seq }) => seq >= 1);
      await device.socket.quiet();
      await device.socket.drop();
      const back = await bench.resume(room, device.welcome.resume_key, device.socket.lastSeq);
      expectEqual(back.welcome.recv, 1, "welcome.recv after one stored frame");
      back.socket.send(deviceFrame("reply", 2));
      await mesh.socket.next("reply");
      await mesh.socket.quiet();
      expectEqual(mesh.socket.received.filter(({ type }) => type === "reply").length, 1, "replies at the mesh");
    },
  },
  {
    id: "L3",
    title: "a mesh that drops gets the reply after it resumes",
    async run(bench) {
      const room = await bench.open();
      const { mesh, device } = await bench.joinBoth(room);
      mesh.socket.send(taskFrame(1));
      await device.socket.next("task");
      await mesh.socket.quiet();
      await mesh.socket.drop();
      device.socket.send(deviceFrame("reply", 1));
      await device.socket.next("ack", ({ seq }) => seq >= 1);
      expectEqual((await bench.status(room)).task.replied, true, "task.replied of GET");
      const back = await bench.resume(room, mesh.welcome.resume_key, mesh.socket.lastSeq);
      await back.socket.next("reply");
    },
  },
  {
    id: "L4",
    title: "after the grace a resume is refused, and `left: lost` says how far the task got",
    async run(bench) {
      const [room, early] = [await bench.open({ ttl_s: 300 }), await bench.open({ ttl_s: 300 })];
      const [{ mesh, device }, pair] = [await bench.joinBoth(room), await bench.joinBoth(early)];
      const graceMs = boundedWaitMs(limitsOf(mesh.welcome).grace_s, "grace_s");
      mesh.socket.send(taskFrame(1));
      await device.socket.next("task");
      await device.socket.quiet();
      await device.socket.drop();
      await mesh.socket.peer("away", LATENESS_MS);
      await pair.device.socket.drop();
      await pair.mesh.socket.peer("away", LATENESS_MS);
      pair.mesh.socket.send(taskFrame(1));

      const left = await mesh.socket.peer("left", graceMs + LATENESS_MS);
      expectEqual(left.reason, "lost", "peer.reason");
      expectEqual(left.handed_seq, 1, "handed_seq of a task that was handed over");
      expectEqual(left.acked_seq, 1, "acked_seq of a task that was acknowledged");
      const resume = { key: device.welcome.resume_key, recv: device.socket.lastSeq };
      expectEqual(await bench.refusedWith(room, { resume }), 4409, "the close code of a late resume");
      expectThat(typeof (await bench.status(room)).device.left_at === "number", "GET must tell device.left_at");

      const never = await pair.mesh.socket.peer("left", graceMs + LATENESS_MS);
      expectEqual(never.handed_seq, 0, "handed_seq of a task that was never handed over");
    },
  },
  {
    id: "L5",
    title: "frames that both sides send again after a resume are not doubled",
    async run(bench) {
      const room = await bench.open();
      const { mesh, device } = await bench.joinBoth(room);
      mesh.socket.send(taskFrame(1));
      await device.socket.next("task");
      device.socket.send(deviceFrame("accepted", 1));
      device.socket.send(deviceFrame("reply", 2));
      await mesh.socket.next("reply");
      await device.socket.drop();
      // A client that saw nothing of what it was sent, and does not know whether its own frames arrived.
      const back = await bench.resume(room, device.welcome.resume_key, device.socket.lastSeq);
      back.socket.send(deviceFrame("accepted", 1));
      back.socket.send(deviceFrame("reply", 2));
      await back.socket.next("ack", ({ seq }) => seq === 2);
      await mesh.socket.quiet();
      const relayed = mesh.socket.received.filter(({ type }) => type === "accepted" || type === "reply");
      expectEqual(
        relayed.map(({ type }) => type),
        ["accepted", "reply"],
        "frames at the mesh",
      );
    },
  },
  {
    id: "L6",
    title: "a clean leave is reported at once, without a grace",
    async run(bench) {
      const { mesh, device } = await bench.joinBoth(await bench.open());
      const graceMs = limitsOf(mesh.welcome).grace_s * 1000;
      const startMs = performance.now();
      device.socket.send({ type: "leave" });
      const left = await mesh.socket.peer("left", Math.min(LATENESS_MS, graceMs / 2));
      expectThat(performance.now() - startMs < graceMs, "the leave waited for the grace");
      expectEqual(left.reason, "left", "peer.reason");
      await device.socket.closed();
      expectThat(
        !mesh.socket.received.some((frame) => frame.type === "peer" && frame.state === "away"),
        "a leave is no `away`",
      );
    },
  },
  {
    id: "L7",
    title: "a device that stops answering is `away` within the announced time",
    async run(bench) {
      const room = await bench.open({ ttl_s: 300 });
      const mesh = await bench.join(room, "mesh");
      const { idle_s, dead_s } = limitsOf(mesh.welcome);
      const patienceMs = boundedWaitMs(idle_s + dead_s, "idle_s + dead_s");
      const device = await bench.join(room, "device", { alive: false });
      await mesh.socket.peer("joined");
      await device.socket.next("ping", undefined, idle_s * 1000 + LATENESS_MS);
      await mesh.socket.peer("away", patienceMs + LATENESS_MS);
    },
  },
  {
    id: "L8",
    title: "a resume key works once",
    async run(bench) {
      const room = await bench.open();
      const { device } = await bench.joinBoth(room);
      await device.socket.drop();
      const recv = device.socket.lastSeq;
      const back = await bench.resume(room, device.welcome.resume_key, recv);
      expectThat(back.welcome.resume_key !== device.welcome.resume_key, "each welcome must carry a new resume_key");
      await back.socket.quiet();
      const code = await bench.refusedWith(room, { resume: { key: device.welcome.resume_key, recv } });
      expectEqual(code, 4409, "the close code of a used resume key");
      await back.socket.quiet();
      const forged = await bench.refusedWith(room, { resume: { key: "forged", recv } });
      expectOneOf(forged, [4404, 4409], "the close code of a forged resume key");

      const taker = await bench.resume(room, back.welcome.resume_key, back.socket.lastSeq);
      expectEqual((await back.socket.closed()).code, 4001, "the close code of a session that was replaced");
      await taker.socket.quiet();
    },
  },
];

function boundedWaitMs(seconds: number, what: string): number {
  if (seconds > LONGEST_WAIT_S)
    throw new Skipped(`${what} is ${seconds} s; announce ${LONGEST_WAIT_S} s or less to be tested`);
  return seconds * 1000;
}
