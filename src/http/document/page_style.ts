/** How the page looks: in one column at any width, in the light or dark colours of the reader's system. */
export const PAGE_STYLE = `
:root { color-scheme: light dark; --line: #8886; --soft: #8881; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 50rem; margin: 0 auto; padding: 2rem 1rem 4rem;
  overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.8rem; } h1 + p { margin-top: .2rem; opacity: .85; }
h2 { margin-top: 3rem; padding-top: .6rem; border-top: 1px solid var(--line); font-size: 1.35rem; }
h3 { margin: 2rem 0 .3rem; font-size: 1.05rem; }
h4 { margin: 1rem 0 .3rem; font-size: 1rem; }
nav ul { columns: 15rem; column-gap: 2rem; padding-left: 1.2rem; margin: .5rem 0; }
nav ul ul { columns: auto; margin: 0; }
nav li { break-inside: avoid; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem; margin: .6rem 0;
  overflow-x: auto; overflow-wrap: normal; user-select: all; font-size: .85rem; line-height: 1.45; }
code { font-family: ui-monospace, monospace; font-size: .92em; }
pre code { font-size: inherit; }
dl { margin: .5rem 0; }
dt { margin-top: .6rem; }
dd { margin: 0 0 0 1.2rem; }
small { opacity: .85; font-size: .88em; }
details { margin: .4rem 0; }
summary { cursor: pointer; }
`;
