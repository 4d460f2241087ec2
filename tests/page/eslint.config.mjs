// Rules for the page's scripts: `make lint` runs them where npx is there. No plugin, no preset to install.
const browser = ["document", "window", "location", "history", "navigator", "matchMedia", "addEventListener",
  "getComputedStyle", "setTimeout", "ResizeObserver", "IntersectionObserver", "CustomEvent", "DecompressionStream",
  "Response", "Blob", "clearTimeout", "requestIdleCallback", "URL", "URLSearchParams", "TextDecoder", "ClipboardItem",
  "atob", "globalThis"];

export default [{
  files: ["**/*.mjs"],
  languageOptions: {
    ecmaVersion: 2022, sourceType: "module",
    globals: Object.fromEntries(browser.map((name) => [name, "readonly"])),
  },
  linterOptions: {reportUnusedDisableDirectives: "error"},
  rules: {
    "no-undef": "error", "no-unused-vars": "error", "no-var": "error", "prefer-const": "error", "eqeqeq": "error",
    "no-shadow": "error", "no-implicit-globals": "error", "no-eval": "error", "no-implied-eval": "error",
    "no-unreachable": "error", "no-dupe-keys": "error", "no-fallthrough": "error", "consistent-return": "error",
    "max-len": ["error", {code: 160}], "max-lines-per-function": ["error", {max: 60, skipComments: true}],
    "no-restricted-properties": ["error", {property: "innerHTML"}, {property: "outerHTML"}, {property: "insertAdjacentHTML"}],
    "semi": "error", "quotes": ["error", "double", {allowTemplateLiterals: true}],
  },
}];
