// The Probity widget: one script tag puts a form that checks an e-mail address where the tag stands.
//
//   <script src="https://verify.example.com/widget.js" data-label="Is it real?" async></script>
//
// data-label, data-button, data-target (a selector of the element to fill) and data-lang are optional. It speaks English, German,
// French, Spanish and Italian: that of data-lang, of the page, or of the browser. An element with a min-height of 11.5rem keeps
// the place, so that nothing on the page moves when it comes. It takes the page's text colour and background, dark or light;
// theme it with CSS variables on any element around it: --probity-accent, --probity-text, --probity-background, --probity-edge,
// --probity-radius, --probity-font, --probity-good, --probity-fair, --probity-bad. A "probity-result" event bubbles with each answer.
(() => {
  "use strict";
  const script = document.currentScript;
  if (!script) return;
  const endpoint = new URL("/v1/verify/public", script.src).href;
  // A colour that is readable on light and dark pages takes a part of the text's own.
  const mixed = (color, percent, other) => `color-mix(in srgb, ${color} ${percent}%, ${other})`;
  const style = `
    :host { display: block; max-width: 28rem; font: var(--probity-font, 1rem/1.5 system-ui, sans-serif); color: var(--probity-text, inherit); }
    form { background: var(--probity-background, transparent); border: 1px solid var(--probity-edge, ${mixed("currentcolor", 50, "transparent")});
      border-radius: var(--probity-radius, .5rem); padding: 1rem; }
    label { display: block; font-weight: 600; margin-bottom: .4rem; }
    .row { display: flex; gap: .5rem; flex-wrap: wrap; }
    input { flex: 1 1 12rem; min-width: 0; font: inherit; color: inherit; background: inherit; padding: .5rem .6rem;
      border: 1px solid var(--probity-edge, ${mixed("currentcolor", 50, "transparent")}); border-radius: calc(var(--probity-radius, .5rem) / 2); }
    button { font: inherit; min-height: 2.75rem; padding: .5rem 1.2rem; color: #fff; background: var(--probity-accent, #0b57b8); border: 0;
      border-radius: calc(var(--probity-radius, .5rem) / 2); cursor: pointer; }
    button[aria-disabled=true] { cursor: progress; opacity: .75; }
    input:focus-visible, button:focus-visible { outline: 3px solid var(--probity-accent, ${mixed("#0b57b8", 60, "currentcolor")}); outline-offset: 2px; }
    p { min-height: 3em; margin: .7rem 0 0; overflow-wrap: anywhere; }
    strong.VALID { color: var(--probity-good, ${mixed("#136b2e", 55, "currentcolor")}); }
    strong.RISKY, strong.UNKNOWN { color: var(--probity-fair, ${mixed("#7a5200", 55, "currentcolor")}); }
    strong.INVALID { color: var(--probity-bad, ${mixed("#b3261e", 55, "currentcolor")}); }`;

  // Of each verdict its name and what it means, then what reasons mean, then what else is said.
  const languages = {
    en: {
      VALID: ["Good", "this mailbox takes mail."],
      RISKY: ["Risky", "mail to this address may bounce or go unread."],
      INVALID: ["Bad", "mail to this address will bounce."],
      UNKNOWN: ["Unknown", "its mail server gave no clear answer. Try again later."],
      invalid_syntax: "this is not an e-mail address.",
      domain_not_found: "the part after the @ does not exist.",
      mailbox_not_found: "the server says that there is no such mailbox.",
      disposable: "this is a disposable address.",
      catch_all: "its server accepts every name, real or not.",
      role_account: "this is a shared (role) address.",
      mailbox_full: "the mailbox is full.",
      possible_typo: "the domain looks mistyped.",
      label: "Check an e-mail address",
      button: "Check",
      empty: "Type an e-mail address first.",
      checking: "Checking…",
      offline: "Cannot connect. Check your connection and try again.",
      failed: "Something went wrong. Try again later.",
      limit: "You have reached the free limit. Try again in {wait}.",
    },
    de: {
      VALID: ["Gut", "dieses Postfach nimmt Mail an."],
      RISKY: ["Riskant", "Mail an diese Adresse kann zurückkommen oder ungelesen bleiben."],
      INVALID: ["Ungültig", "Mail an diese Adresse kommt zurück."],
      UNKNOWN: ["Unklar", "der Mailserver hat nicht eindeutig geantwortet. Bitte später noch einmal versuchen."],
      invalid_syntax: "das ist keine E-Mail-Adresse.",
      domain_not_found: "den Teil nach dem @ gibt es nicht.",
      mailbox_not_found: "laut Server gibt es dieses Postfach nicht.",
      disposable: "das ist eine Wegwerfadresse.",
      catch_all: "der Server nimmt jeden Namen an, auch erfundene.",
      role_account: "das ist eine gemeinsam genutzte Adresse.",
      mailbox_full: "das Postfach ist voll.",
      possible_typo: "die Domain sieht nach einem Tippfehler aus.",
      label: "E-Mail-Adresse prüfen",
      button: "Prüfen",
      empty: "Bitte zuerst eine E-Mail-Adresse eingeben.",
      checking: "Wird geprüft …",
      offline: "Keine Verbindung. Bitte die Verbindung prüfen und noch einmal versuchen.",
      failed: "Etwas ist schiefgegangen. Bitte später noch einmal versuchen.",
      limit: "Das freie Kontingent ist aufgebraucht. Wieder möglich in: {wait}.",
    },
    fr: {
      VALID: ["Bonne", "cette boîte reçoit du courrier."],
      RISKY: ["Risquée", "un message à cette adresse peut être rejeté ou rester non lu."],
      INVALID: ["Invalide", "un message à cette adresse sera rejeté."],
      UNKNOWN: ["Inconnue", "son serveur n'a pas répondu clairement. Réessayez plus tard."],
      invalid_syntax: "ce n'est pas une adresse e-mail.",
      domain_not_found: "la partie après @ n'existe pas.",
      mailbox_not_found: "le serveur dit que cette boîte n'existe pas.",
      disposable: "c'est une adresse jetable.",
      catch_all: "son serveur accepte tous les noms, vrais ou non.",
      role_account: "c'est une adresse partagée.",
      mailbox_full: "la boîte est pleine.",
      possible_typo: "le domaine semble mal tapé.",
      label: "Vérifier une adresse e-mail",
      button: "Vérifier",
      empty: "Saisissez d'abord une adresse e-mail.",
      checking: "Vérification…",
      offline: "Connexion impossible. Vérifiez votre connexion et réessayez.",
      failed: "Une erreur s'est produite. Réessayez plus tard.",
      limit: "La limite gratuite est atteinte. Réessayez dans {wait}.",
    },
    es: {
      VALID: ["Buena", "este buzón recibe correo."],
      RISKY: ["Dudosa", "el correo a esta dirección puede ser devuelto o no leerse."],
      INVALID: ["No válida", "el correo a esta dirección será devuelto."],
      UNKNOWN: ["Desconocida", "su servidor no dio una respuesta clara. Inténtelo más tarde."],
      invalid_syntax: "esto no es una dirección de correo.",
      domain_not_found: "la parte que sigue a la @ no existe.",
      mailbox_not_found: "el servidor dice que ese buzón no existe.",
      disposable: "es una dirección desechable.",
      catch_all: "su servidor acepta cualquier nombre, real o no.",
      role_account: "es una dirección compartida.",
      mailbox_full: "el buzón está lleno.",
      possible_typo: "el dominio parece mal escrito.",
      label: "Comprobar una dirección de correo",
      button: "Comprobar",
      empty: "Escriba primero una dirección de correo.",
      checking: "Comprobando…",
      offline: "No hay conexión. Compruébela e inténtelo de nuevo.",
      failed: "Algo ha fallado. Inténtelo más tarde.",
      limit: "Ha llegado al límite gratuito. Inténtelo de nuevo en {wait}.",
    },
    it: {
      VALID: ["Buono", "questa casella riceve posta."],
      RISKY: ["Rischioso", "la posta a questo indirizzo può tornare indietro o non essere letta."],
      INVALID: ["Non valido", "la posta a questo indirizzo tornerà indietro."],
      UNKNOWN: ["Sconosciuto", "il suo server non ha risposto chiaramente. Riprova più tardi."],
      invalid_syntax: "questo non è un indirizzo e-mail.",
      domain_not_found: "la parte dopo la @ non esiste.",
      mailbox_not_found: "il server dice che la casella non esiste.",
      disposable: "è un indirizzo usa e getta.",
      catch_all: "il suo server accetta ogni nome, vero o no.",
      role_account: "è un indirizzo condiviso.",
      mailbox_full: "la casella è piena.",
      possible_typo: "il dominio sembra scritto male.",
      label: "Controlla un indirizzo e-mail",
      button: "Controlla",
      empty: "Scrivi prima un indirizzo e-mail.",
      checking: "Controllo in corso…",
      offline: "Connessione assente. Controllala e riprova.",
      failed: "Qualcosa non ha funzionato. Riprova più tardi.",
      limit: "Hai raggiunto il limite gratuito. Riprova tra {wait}.",
    },
  };
  const wanted = [script.dataset.lang, document.documentElement.lang, ...navigator.languages].map((l) => (l || "").slice(0, 2).toLowerCase());
  const language = wanted.find((l) => l in languages) || "en";
  const words = languages[language];

  class Checker extends HTMLElement {
    connectedCallback() {
      if (this.shadowRoot) return;
      this.lang = language;
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
      this.button = make("button", { type: "submit", textContent: script.dataset.button || words.button });
      this.status = make("p", {});
      this.status.setAttribute("role", "status");
      const form = make("form", { noValidate: true },
        make("label", { htmlFor: "email", textContent: script.dataset.label || words.label }),
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
        this.show("idle", words.empty);
        this.input.focus();
        return;
      }
      this.show("checking", words.checking);
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
        this.show("offline", words.offline);
        return;
      }
      if (response.status === 429) {
        this.show("limit", words.limit.replace("{wait}", wait(response.headers.get("Retry-After"))));
      } else if (!response.ok || !Array.isArray(words[body.status])) {
        this.show("offline", words.failed);
      } else {
        this.show("result", words[body.reason] || words[body.status][1], body.status);
        this.dispatchEvent(new CustomEvent("probity-result", { bubbles: true, composed: true, detail: body }));
      }
    }
  }

  function wait(seconds) {
    const n = Number(seconds) || 60;
    const [unit, size] = n < 90 ? ["second", 1] : n < 5400 ? ["minute", 60] : n < 129600 ? ["hour", 3600] : ["day", 86400];
    return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" }).format(Math.ceil(n / size));
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
