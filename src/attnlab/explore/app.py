"""The page of `attnlab explore`, a marimo notebook: sliders over exact risks, forms for the rest."""

import marimo

app = marimo.App(width="full", app_title="attnlab")


@app.cell
def imports():
    import marimo as mo

    from attnlab.explore import page

    return mo, page


@app.cell
def heading(mo):
    mo.md(
        """
        # attnlab

        Attention models that can be solved exactly. Nothing on the first two pages is sampled: each
        number comes with its method and an estimate of its error.
        """
    )
    return


@app.cell
def chosen_tab(mo):
    part = mo.ui.radio(
        ["Single-location regression", "In-context regression", "Experiments", "Claims"],
        value="Single-location regression",
        inline=True,
    )
    mo.output.replace(part)
    return (part,)


@app.cell
def single_location_form(mo, page, part):
    mo.stop(part.value != "Single-location regression")
    single = page.single_location_controls()
    mo.output.replace(single)
    return (single,)


@app.cell
def single_location_view(page, single):
    page.shown(page.single_location, single.value)
    return


@app.cell
def in_context_form(mo, page, part):
    mo.stop(part.value != "In-context regression")
    heads = page.in_context_controls()
    mo.output.replace(heads)
    return (heads,)


@app.cell
def in_context_view(heads, page):
    page.shown(page.in_context, heads.value)
    return


@app.cell
def experiment_choice(mo, page, part):
    mo.stop(part.value != "Experiments")
    experiment = page.experiment_choice()
    mo.output.replace(experiment)
    return (experiment,)


@app.cell
def experiment_form(experiment, mo, page):
    told, settings = page.experiment_form(experiment.value)
    mo.vstack([told, settings])
    return (settings,)


@app.cell
def experiment_result(experiment, mo, page, settings):
    mo.stop(settings.value is None)
    page.shown(page.run_experiment, experiment.value, settings.value)
    return


@app.cell
def claim_choice(mo, page, part):
    mo.stop(part.value != "Claims")
    claim = page.claim_choice()
    check = mo.ui.run_button(label="Check it")
    mo.vstack([claim, check])
    return check, claim


@app.cell
def claim_result(check, claim, page):
    page.shown(page.claim, claim.value, check.value)
    return


if __name__ == "__main__":
    app.run()
