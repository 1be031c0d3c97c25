import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { systemClock } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { AskTimers, type Deadline } from "./ask-timers.ts";

describe("the deadlines of an ask", () => {
  it("replace each other, but for the grace", async () => {
    const clock = createFakeClock();
    const passed: Deadline[] = [];
    const timers = new AskTimers(clock, { deadlinePassed: (which) => passed.push(which) });
    timers.arm("join", 100);
    timers.arm("grace", 150);
    timers.arm("reply", 200);
    await clock.advance(199);
    expect(passed).toEqual(["grace"]);
    await clock.advance(1);
    expect(passed).toEqual(["grace", "reply"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("can be taken back to the last moment", async () => {
    const clock = createFakeClock();
    const passed: Deadline[] = [];
    const timers = new AskTimers(clock, { deadlinePassed: (which) => passed.push(which) });
    timers.arm("join", 100);
    timers.arm("grace", 100);
    clock.schedule(100, () => timers.disarmGrace());
    await clock.advance(100);
    expect(passed).toEqual(["join"]);
    timers.arm("reply", 100);
    clock.schedule(100, () => timers.disarmAll());
    await clock.advance(1_000);
    expect(passed).toEqual(["join"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("come after what waits in a socket when the process was held up", async () => {
    const accepted = Promise.withResolvers<Socket>();
    const server = createServer((socket) => accepted.resolve(socket));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("the server has no port");
    const device = connect(address.port, "127.0.0.1");
    const mesh = await accepted.promise;
    const seen: string[] = [];
    const both = Promise.withResolvers<void>();
    const see = (what: string): void => {
      if (seen.push(what) === 2) both.resolve();
    };
    mesh.on("data", () => see("answer"));
    new AskTimers(systemClock, { deadlinePassed: (which) => see(which) }).arm("reply", 30);
    device.write("answer");
    const until = systemClock.monotonicMs() + 120;
    while (systemClock.monotonicMs() < until);
    await both.promise;
    expect(seen).toEqual(["answer", "reply"]);
    device.destroy();
    mesh.destroy();
    server.close();
    await once(server, "close");
  });
});
