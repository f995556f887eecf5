// The scripted model of a proof, as one of Pi's own. GUARD_PROOF says where it
// is, and with which key it is asked; both are of that one proof alone.
export default (pi) => {
  const { url, key } = JSON.parse(process.env.GUARD_PROOF ?? "null");
  pi.registerProvider("guard-proof", {
    baseUrl: url,
    apiKey: key,
    api: "anthropic-messages",
    models: [
      {
        id: "proof", name: "proof", reasoning: false, input: ["text"],
        cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 200000, maxTokens: 4096,
      },
    ],
  });
};
