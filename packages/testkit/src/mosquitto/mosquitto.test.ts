import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { describe, expect, it } from "vitest";
import { mosquittoAvailable, startMosquitto, startTlsMosquitto } from "./index.ts";

describe("mosquittoAvailable", () => {
  it("says no when a command is missing, and is an error where nothing may be left out", () => {
    expect(mosquittoAvailable({ PATH: "" })).toBe(false);
    expect(() => mosquittoAvailable({ PATH: "", LEAFMESH_STRICT: "1" })).toThrow(/apt-get install mosquitto/);
  });
});

describe.skipIf(!mosquittoAvailable())("the Mosquitto harness (needs mosquitto)", () => {
  it("starts on a free port, can be killed and started again there, and leaves nothing behind", async () => {
    const broker = await startMosquitto();
    const { tcp } = broker.ports;
    await opens(tcp);
    await broker.kill();
    await expect(opens(tcp)).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await broker.start();
    await opens(tcp);
    const { pid } = broker;
    await broker.stop();
    await broker.stop();
    expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
  });

  it("does not outlive the process that started it, however that ended", async () => {
    const program = `
      const { startMosquitto } = await import("@leafmesh/testkit/mosquitto");
      const broker = await startMosquitto();
      console.log(broker.pid);
      setInterval(() => {}, 1000);
    `;
    const args = ["--conditions=leafmesh-source", "--input-type=module", "-e", program];
    const child = spawn(process.execPath, args, { cwd: import.meta.dirname, stdio: ["ignore", "pipe", "inherit"] });
    const pid = Number((await once(child.stdout, "data"))[0]);
    process.kill(pid, 0);
    child.kill("SIGKILL");
    await expect.poll(() => isAlive(pid)).toBe(false);
  });

  it("serves TLS with a certificate that its own authority signed", async () => {
    await using broker = await startTlsMosquitto({ users: { mesh: "secret" } });
    const socket = connectTls({
      host: "127.0.0.1",
      port: broker.ports.tls,
      servername: "localhost",
      ca: broker.authority.ca,
    });
    await once(socket, "secureConnect");
    expect(socket.authorized).toBe(true);
    socket.destroy();
  });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function opens(port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.destroy();
}
