// Light or dark: as the system says, unless someone chose. Runs before the page is drawn, so that it does not flash.
(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("cordwood-theme"); } catch { return null; } };
  const use = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
  use(stored());
  window.cordwoodTheme = {
    get: () => root.dataset.theme || "system",
    set: (theme) => {
      const chosen = theme === "system" ? "" : theme;
      use(chosen);
      try { if (chosen) localStorage.setItem("cordwood-theme", chosen); else localStorage.removeItem("cordwood-theme"); } catch { /* it holds for this page */ }
    },
  };
})();
