import { redlock } from "quorlock";

await redlock("dist", async (lease) => console.log("held with fence", lease.fence));
