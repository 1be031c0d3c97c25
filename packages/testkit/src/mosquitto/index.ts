export { type Authority, type CertificateRequest, createAuthority, type IssuedCertificate } from "./authority.ts";
export { mosquittoAvailable } from "./available.ts";
export { type Broker, type BrokerPlace, type BrokerSetup, startBroker } from "./broker.ts";
export {
  type Mosquitto,
  type MosquittoOptions,
  startMosquitto,
  startTlsMosquitto,
  type TlsMosquitto,
} from "./setups.ts";
