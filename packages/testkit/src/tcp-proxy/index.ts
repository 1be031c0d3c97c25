export { type CutPoint, type LinkFaults, startTcpProxy, type TcpProxy } from "./proxy.ts";
