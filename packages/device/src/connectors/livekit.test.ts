import { systemClock } from "@leafmesh/protocol";
import { livekitRoom } from "@leafmesh/rooms";
import { type LiveKitServer, livekitAvailable, startLiveKit } from "@leafmesh/testkit/livekit";
import { type RoomServiceUnderTest, testRoom } from "@leafmesh/testkit/suites";
import { RoomServiceClient } from "livekit-server-sdk";
import { afterAll, beforeAll, describe } from "vitest";
import { livekitConnector } from "./livekit.ts";

/** A real LiveKit server judges the adapter and the connector, both through LiveKit's own client. */
describe.skipIf(!livekitAvailable())("over a real LiveKit server", () => {
  let server: LiveKitServer;
  beforeAll(async () => {
    server = await startLiveKit();
  });
  afterAll(() => server?.stop());

  testRoom(
    "livekit",
    async (): Promise<RoomServiceUnderTest> => {
      const control = new RoomServiceClient(server.httpUrl, server.apiKey, server.apiSecret);
      return {
        definition: livekitRoom,
        record: { url: server.url, api_key: server.apiKey, api_secret: server.apiSecret },
        secrets: [server.apiSecret],
        connector: () => livekitConnector(),
        cut: ({ join }) => control.removeParticipant(join.room, join.params?.identity ?? "").catch(() => {}),
        refuse: () => undefined,
        close: async () => {},
      };
    },
    {
      // LiveKit takes its time to tell who is there; waits may not be much shorter than that.
      clock: { ...systemClock, schedule: (afterMs, run) => systemClock.schedule(afterMs / 5, run) },
      cannot: {
        secondHolder: "an identity is in a room once",
        resume: "the network of LiveKit's native part cannot be cut from here",
        stranger: "who has no token gets nowhere near the room",
        tooLarge: "LiveKit carries no packet over 15 KiB",
        ...{ repeat: "no delivery is repeated", expire: "a token ends in seconds of real time" },
        ...{ end: "shown with the mesh's own end", stall: "the server is shared by the tests" },
        ...{ failing: "shown against a played API", readable: "shown against a played API" },
      },
    },
  );
});
