"""`icectl tag`: list, create and delete tags."""

from __future__ import annotations

from icectl.cli.context import CommandContext
from icectl.cli.options import (
    AtOpOption,
    DefaultRefArgument,
    NewNameArgument,
    TagArgument,
    YesOption,
    command,
)
from icectl.ops import refs
from icectl.render.refs import render_tag_created, render_tag_deleted, render_tags
from icectl.repository.resolve import DEFAULT_REF

EXAMPLES = {
    "tag list": (("icectl tag list", "every tag, and the names of deleted ones"),),
    "tag create": (
        ("icectl tag create v1.0", "tag the tip of main"),
        ("icectl tag create v0.9 main~3", "tag an older commit"),
    ),
    "tag delete": (("icectl tag delete v1.0", "the name can never be used again"),),
}


@command(jsonl=True)
def list_tags(context: CommandContext, at_op: AtOpOption = None) -> None:
    """List the tags.

    Shows the commit of each, and the names of deleted tags.
    """
    listing = refs.list_tags(context.open_repository(at_op))
    if context.options.jsonl:
        context.emit_list("tags", listing.tags, lambda _tags: ())
    else:
        context.emit(listing, render_tags, paged=True)


@command()
def create(context: CommandContext, name: NewNameArgument, ref: DefaultRefArgument = None) -> None:
    """Create a tag.

    The tag points to REF, by default to the tip of main, and never moves.
    """
    at = DEFAULT_REF if ref is None else ref
    context.emit(refs.create_tag(context.open_repository(), name, at), render_tag_created)


@command()
def delete(context: CommandContext, tag: TagArgument, yes: YesOption = False) -> None:
    """Delete a tag permanently.

    Asks for confirmation on a terminal; scripts need no --yes. The output shows the snapshot of
    the tag, which is not deleted. The specification forbids reusing the name of a deleted tag;
    use another name to tag the same snapshot.
    """
    repository = context.open_repository()
    if tag in repository.tags():
        where = f"tag {tag} of {repository.storage.location} at {repository.tags()[tag]}"
        question = f"Delete the {where}? Its name can never be used again."
        context.confirm(question, yes=yes or not context.is_interactive)
    change = refs.delete_tag(repository, tag)
    context.emit(change, render_tag_deleted)
    again = context.command_line("tag create", "NAME", str(change.snapshot_id))
    context.note(f"the name cannot be used again; to tag the same snapshot: {again}")
