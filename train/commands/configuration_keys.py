"""The help of a command whose configuration file has keys: they are listed below its options."""

import click


class CommandWithConfigKeys(click.Command):
    """A command that lists the keys of the configuration, with their defaults and meanings, at the end of its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from curate.recipes.toml_writer import toml_value
        from train.config.key_descriptions import describe_sections

        super().format_epilog(ctx, formatter)
        for section in describe_sections():
            with formatter.section(section.heading):
                formatter.write_dl(
                    [
                        (key.name if key.required else f"{key.name} = {toml_value(key.default)}", key.help)
                        for key in section.keys
                    ]
                )
