// The tests run against real gateways, which AGENTBUS_URLS names; `make test-clients` starts them. The tests of test/shared run in
// Node.js and in Chromium, from a page whose origin the gateways allow.
import { playwright } from "@vitest/browser-playwright";
import { defineConfig } from "vitest/config";

const shared = "test/shared/**/*.test.{ts,tsx}";
const chromium = process.env.CHROMIUM ?? "/usr/bin/chromium";

export default defineConfig({
  test: {
    globalSetup: "test/setup.ts",
    testTimeout: 120_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    projects: [
      { extends: true, test: { name: "node", include: ["test/node/**/*.test.ts", shared], exclude: ["**/react.test.tsx"] } },
      {
        extends: true,
        optimizeDeps: { include: ["react", "react-dom/client", "react/jsx-dev-runtime", "zod"] },
        test: {
          name: "chromium",
          include: [shared],
          browser: {
            enabled: true,
            headless: true,
            screenshotFailures: false,
            provider: playwright({ launchOptions: { executablePath: chromium, args: ["--no-sandbox"] } }),
            instances: [{ browser: "chromium" }],
            api: { host: "127.0.0.1", port: Number(process.env.AGENTBUS_PAGE_PORT ?? 63315), strictPort: true },
          },
        },
      },
    ],
  },
});
