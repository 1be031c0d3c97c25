/** What version 1 grew after its first list: old services may lack the optional ones. */
import { meshTokenSchema } from "@leafmesh/protocol";
import type { ConformanceTest } from "../conformance-test.ts";
import { expectEqual, expectThat, Skipped } from "../verdict.ts";
import { deviceFrame, taskFrame } from "../workbench.ts";

export const additionTests: readonly ConformanceTest[] = [
  {
    id: "R1",
    title: "a device that refuses uses up its token, takes no seat and gets no task",
    async run(bench) {
      const room = await bench.open();
      const mesh = await bench.join(room, "mesh");
      mesh.socket.send(taskFrame(1));
      await mesh.socket.next("ack", ({ seq }) => seq >= 1);
      const device = await bench.connect(room);
      device.hello({ token: room.device_token, refuse: "not_allowed" });
      expectEqual((await device.closed()).code, 1000, "the close code of the refusing device");
      expectThat(!device.received.some(({ type }) => type === "task"), "a refusing device must not get the task");
      await mesh.socket.peer("refused");
      expectEqual(await bench.refusedWith(room, { token: room.device_token }), 4409, "the code for the used token");
    },
  },
  {
    id: "R2",
    title: "what the device says it can do reaches the mesh",
    async run(bench) {
      const room = await bench.open();
      const mesh = await bench.join(room, "mesh");
      const device = await bench.connect(room);
      const capabilities = [{ name: "battery.read", description: "Reads the level", effect: "read" as const }];
      device.hello({ token: room.device_token, capabilities });
      await device.next("welcome");
      expectEqual((await mesh.socket.peer("joined")).capabilities, capabilities, "peer.capabilities");
    },
  },
  {
    id: "M1",
    title: "a mesh that lost its resume key takes its seat again and gets the reply (optional)",
    async run(bench) {
      const room = await bench.open();
      const { mesh, device } = await bench.joinBoth(room);
      mesh.socket.send(taskFrame(1));
      await device.socket.next("task");
      await mesh.socket.drop();
      device.socket.send(deviceFrame("reply", 1));
      await device.socket.next("ack", ({ seq }) => seq >= 1);
      const answer = await bench.call("POST", `/v1/rooms/${room.room_id}/mesh-token`);
      if (answer.status === 404) throw new Skipped("POST …/mesh-token is optional and not offered");
      expectEqual(answer.status, 201, "the status of POST …/mesh-token");
      const token = meshTokenSchema.safeParse(answer.json);
      expectThat(
        token.success,
        "the 201 of POST …/mesh-token must hold connect_url, mesh_token and mesh_token_expires_at",
      );
      const socket = await bench.connect(room);
      socket.hello({ token: token.data.mesh_token });
      const welcome = await socket.next("welcome");
      expectEqual(welcome.recv, 1, "welcome.recv: the mesh goes on counting above it");
      await socket.next("reply");
      const first = socket.received.find((frame) => "seq" in frame);
      expectEqual(first && "seq" in first ? first.seq : undefined, 1, "the first number for a mesh that starts anew");
    },
  },
];
