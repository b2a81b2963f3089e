(function () {
  "use strict";
  var coarse = window.matchMedia("(pointer: coarse)").matches;
  function draw(element) {
    if (element.dataset.drawn) return;
    element.dataset.drawn = "yes";
    var chart = JSON.parse(document.getElementById(element.id + "-data").textContent);
    // On a touch screen a finger scrolls the page; zooming is done by the buttons.
    if (coarse) chart.layout.dragmode = false;
    Plotly.newPlot(element, chart.data, chart.layout, {
      responsive: true, displaylogo: false, showSendToCloud: false, displayModeBar: coarse ? true : "hover",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
  }
  var charts = Array.from(document.querySelectorAll(".chart"));
  var near = 1200;  // pixels below the screen
  var later = charts.filter(function (element) {
    if (element.getBoundingClientRect().top > window.innerHeight + near) return true;
    draw(element);
    return false;
  });
  if ("IntersectionObserver" in window) {
    var watch = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) { watch.unobserve(entry.target); draw(entry.target); }
      });
    }, { rootMargin: near + "px" });
    later.forEach(function (element) { watch.observe(element); });
  } else {
    later.forEach(draw);
  }
  window.addEventListener("beforeprint", function () {
    charts.forEach(draw);
    charts.forEach(function (element) { Plotly.Plots.resize(element); });
  });
})();
