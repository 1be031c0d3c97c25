import { createFakeClock } from "@leafmesh/testkit";
import { mosquittoAvailable, startMosquitto } from "@leafmesh/testkit/mosquitto";
import { describe, expect, it, onTestFinished } from "vitest";
import { checkMqtt } from "./check.ts";
import { mqttOptions } from "./options.ts";

const patient = new AbortController().signal;

/** What the check says is tested where it is used, with the notifier and the room. */
describe.skipIf(!mosquittoAvailable())("the test of a record (needs mosquitto)", () => {
  it("ends, without a verdict, when the broker freezes under it", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const clock = createFakeClock();
    const options = mqttOptions.parse({ url: broker.url, room_topic_prefix: "leafmesh" });
    const from = broker.log().length;
    const checking = checkMqtt(options, clock, patient);
    await broker.logged("Sending CONNACK", from);
    broker.freeze();
    let result: unknown;
    void checking.then((said) => {
      result = said;
    });
    await expect
      .poll(async () => {
        await clock.advance(1_000);
        return result;
      })
      .toBeDefined();
    // What was under way when it froze may have been answered; nothing after that was.
    expect(result).toMatchObject({ status: expect.stringMatching(/readable|failing/) });
  });

  it("leaves no connection behind", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.stop());
    const options = mqttOptions.parse({ url: broker.url, room_topic_prefix: "leafmesh" });
    const clock = createFakeClock();
    expect(await checkMqtt(options, clock, patient)).toEqual({ status: "active" });
    await broker.logged("Received DISCONNECT");
    expect(clock.pendingTimers).toBe(0);
  });
});
