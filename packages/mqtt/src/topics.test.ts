import { describe, expect, it } from "vitest";
import { roomBase, roomTopics, topicIssue } from "./topics.ts";

describe("topicIssue", () => {
  it.each(["leafmesh/phone-7/connect", "a", "a b/c", "läuft/ü", `a/${"b".repeat(65_533)}`])("takes %.40s", (topic) => {
    expect(topicIssue(topic)).toBeUndefined();
  });

  it.each([
    ["", /empty/],
    ["leafmesh/+/connect", /wildcards/],
    ["leafmesh/#", /wildcards/],
    ["#", /wildcards/],
    ["leafmesh/a+b", /wildcards/],
    ["$SYS/broker/log", /reserved for the broker/],
    ["$share/group/topic", /reserved for the broker/],
    ["leafmesh/\u0000/connect", /control characters/],
    ["leafmesh/a\nb", /control characters/],
    ["leafmesh/\u007f", /control characters/],
    ["leafmesh/\u0085", /control characters/],
    ["/leafmesh", /empty levels/],
    ["leafmesh/", /empty levels/],
    ["leafmesh//connect", /empty levels/],
    ["leafmesh/\ud800", /valid Unicode/],
    [`a/${"b".repeat(65_534)}`, /65535 bytes/],
    [`a/${"ü".repeat(32_767)}`, /65535 bytes/],
  ])("refuses %j", (topic, reason) => {
    expect(topicIssue(topic)).toMatch(reason);
  });
});

describe("the topics of a room", () => {
  it("give the device a level of its own, which access rules rely on", () => {
    expect(roomTopics(roomBase("leafmesh", "room_1", "phone:7@a|b"))).toEqual({
      down: "leafmesh/room/room_1/d/phone:7@a|b/down",
      up: "leafmesh/room/room_1/d/phone:7@a|b/up",
      presence: "leafmesh/room/room_1/d/phone:7@a|b/presence",
    });
  });
});
