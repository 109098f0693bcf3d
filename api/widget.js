// The Probity widget: one script tag puts a form that checks an e-mail address where the tag stands.
//
//   <script src="https://verify.example.com/widget.js" data-label="Is it real?" async></script>
//
// data-label, data-button and data-target (a selector of the element to fill) are optional. An element with a min-height of
// 11.5rem keeps the place, so that nothing on the page moves when it comes. Theme it with CSS variables
// on any element around it: --probity-accent, --probity-text, --probity-background, --probity-edge, --probity-radius,
// --probity-font, --probity-good, --probity-fair, --probity-bad. A "probity-result" event bubbles with each answer.
(() => {
  "use strict";
  const script = document.currentScript;
  if (!script) return;
  const endpoint = new URL("/v1/verify/public", script.src).href;
  const label = script.dataset.label || "Check an e-mail address";
  const button = script.dataset.button || "Check";

  const style = `
    :host { display: block; max-width: 28rem; font: var(--probity-font, 1rem/1.5 system-ui, sans-serif); color: var(--probity-text, #15181e); }
    form { background: var(--probity-background, #fff); border: 1px solid var(--probity-edge, #767c88);
      border-radius: var(--probity-radius, .5rem); padding: 1rem; }
    label { display: block; font-weight: 600; margin-bottom: .4rem; }
    .row { display: flex; gap: .5rem; flex-wrap: wrap; }
    input { flex: 1 1 12rem; min-width: 0; font: inherit; color: inherit; background: inherit; padding: .5rem .6rem;
      border: 1px solid var(--probity-edge, #767c88); border-radius: calc(var(--probity-radius, .5rem) / 2); }
    button { font: inherit; min-height: 2.75rem; padding: .5rem 1.2rem; color: #fff; background: var(--probity-accent, #0b57b8); border: 0;
      border-radius: calc(var(--probity-radius, .5rem) / 2); cursor: pointer; }
    button[aria-disabled=true] { cursor: progress; opacity: .75; }
    input:focus-visible, button:focus-visible { outline: 3px solid var(--probity-accent, #0b57b8); outline-offset: 2px; }
    p { min-height: 3em; margin: .7rem 0 0; overflow-wrap: anywhere; }
    strong.VALID { color: var(--probity-good, #136b2e); }
    strong.RISKY, strong.UNKNOWN { color: var(--probity-fair, #7a5200); }
    strong.INVALID { color: var(--probity-bad, #b3261e); }`;

  const words = {
    VALID: ["Good", "this mailbox takes mail."],
    RISKY: ["Risky", "mail to this address may bounce or go unread."],
    INVALID: ["Bad", "mail to this address will bounce."],
    UNKNOWN: ["Unknown", "its mail server gave no clear answer. Try again later."],
  };
  const reasons = {
    invalid_syntax: "this is not an e-mail address.",
    domain_not_found: "the part after the @ does not exist.",
    mailbox_not_found: "the server says that there is no such mailbox.",
    disposable: "this is a disposable address.",
    catch_all: "its server accepts every name, real or not.",
    role_account: "this is a shared (role) address.",
    mailbox_full: "the mailbox is full.",
    possible_typo: "the domain looks mistyped.",
  };

  class Checker extends HTMLElement {
    connectedCallback() {
      if (this.shadowRoot) return;
      const root = this.attachShadow({ mode: "open" });
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(style);
      root.adoptedStyleSheets = [sheet];
      const make = (name, props, ...children) => {
        const e = Object.assign(document.createElement(name), props);
        e.append(...children);
        return e;
      };
      this.input = make("input", { id: "email", type: "text", inputMode: "email", autocomplete: "email", spellcheck: false, required: true, maxLength: 320 });
      this.button = make("button", { type: "submit", textContent: button });
      this.status = make("p", {});
      this.status.setAttribute("role", "status");
      const form = make("form", { noValidate: true },
        make("label", { htmlFor: "email", textContent: label }),
        make("div", { className: "row" }, this.input, this.button), this.status);
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.check();
      });
      root.append(form);
      this.show("idle", "");
    }

    // show puts the widget into a state: idle, checking, result, limit or offline.
    show(state, text, verdict) {
      this.dataset.state = state;
      this.button.setAttribute("aria-disabled", String(state === "checking"));
      this.status.replaceChildren();
      if (verdict) {
        const strong = document.createElement("strong");
        strong.className = verdict;
        strong.textContent = words[verdict][0];
        this.status.append(strong, ": ");
      }
      this.status.append(text);
    }

    async check() {
      if (this.dataset.state === "checking") return;
      const email = this.input.value.trim();
      if (!email) {
        this.show("idle", "Type an e-mail address first.");
        this.input.focus();
        return;
      }
      this.show("checking", "Checking…");
      let response, body;
      try {
        response = await fetch(endpoint, {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify({ email }),
          credentials: "omit",
          signal: AbortSignal.timeout(20000),
        });
        body = await response.json();
      } catch {
        this.show("offline", "Cannot connect. Check your connection and try again.");
        return;
      }
      if (response.status === 429) {
        this.show("limit", "You have reached the free limit. Try again in " + wait(response.headers.get("Retry-After")) + ".");
      } else if (!response.ok || !words[body.status]) {
        this.show("offline", "Something went wrong. Try again later.");
      } else {
        this.show("result", reasons[body.reason] || words[body.status][1], body.status);
        this.dispatchEvent(new CustomEvent("probity-result", { bubbles: true, composed: true, detail: body }));
      }
    }
  }

  function wait(seconds) {
    const n = Number(seconds) || 60;
    if (n < 90) return Math.ceil(n) + " seconds";
    if (n < 5400) return Math.ceil(n / 60) + " minutes";
    if (n < 129600) return Math.ceil(n / 3600) + " hours";
    return Math.ceil(n / 86400) + " days";
  }

  if (!customElements.get("probity-check")) customElements.define("probity-check", Checker);
  const place = () => {
    const widget = document.createElement("probity-check");
    const target = script.dataset.target && document.querySelector(script.dataset.target);
    if (target) target.replaceChildren(widget);
    else script.after(widget);
  };
  if (script.dataset.target && document.readyState === "loading") document.addEventListener("DOMContentLoaded", place);
  else place();
})();
