//! A person who gives orders, as `tick/operate.rs` carries them out: read, apply, write, and all of it again
//! until the order is found.

use dbtick::model::transitions::Refusal;

use super::decisions::{Deed, Outcome, order_id};
use super::invariants::{Violation, require};
use super::setup::{Mutant, Wish};
use super::world::{Begins, Context, Late, Ordered, Person, Standing, Tag, Who, World};

impl World {
    pub(crate) fn person(&self, context: &mut Context<'_>) -> Result<(), Violation> {
        match &self.person {
            Person::Away if self.left.orders > 0 => {
                for wish in context.setup.wishes {
                    let mut world = self.clone();
                    world.left.orders -= 1;
                    world.person = Person::Looks(Ordered {
                        id: self.left.orders,
                        wish: *wish,
                        token: None,
                        landed: false,
                    });
                    context.moves.push(((Who::Person, name(*wish)), world));
                }
            }
            Person::Away => {}
            Person::Looks(order) => self.look(*order, context),
            Person::Writes(order, standing, begins) => {
                self.carry_out(*order, *standing, *begins, context)?;
            }
        }
        if self.person != Person::Away {
            let mut world = self.clone();
            world.person = Person::Away;
            context.moves.push(((Who::Person, "goes away"), world));
        }
        Ok(())
    }

    fn look(&self, order: Ordered, context: &mut Context<'_>) {
        for (mut world, found) in self.reads(context) {
            let mut order = order;
            let (standing, begins) = match found {
                Some(standing) => (standing, Begins::No),
                None if order.wish == Wish::Reset => {
                    // Seconds since long ago are more than any count of claims, and they go on.
                    let counts_again = context.setup.mutant == Mutant::TokensCountedAgain;
                    let lost = context.setup.deletions - self.left.deletions;
                    let floor = match counts_again && !self.marker {
                        true => 0,
                        false => 1000 * (1 + u64::from(lost)),
                    };
                    let doc = context.decisions.begun_again(floor);
                    let (tag, age) = (Tag::Nothing, 0);
                    (Standing { doc, tag, age }, Begins::Unmarked)
                }
                None => {
                    world.person = Person::Away;
                    context
                        .moves
                        .push(((Who::Person, "finds no document"), world));
                    continue;
                }
            };
            order
                .token
                .get_or_insert(context.decisions.facts(standing.doc).token);
            world.person = Person::Writes(order, standing, begins);
            context
                .moves
                .push(((Who::Person, "reads the document"), world));
        }
    }

    fn carry_out(
        &self,
        order: Ordered,
        standing: Standing,
        begins: Begins,
        context: &mut Context<'_>,
    ) -> Result<(), Violation> {
        let deed = Deed::Order {
            id: order.id,
            wish: order.wish,
            token: order.token.unwrap_or(0),
        };
        let mut world = self.clone();
        let next = match context.decisions.decide(standing.doc, deed, self.time) {
            Outcome::Changed(next) => next,
            Outcome::Already => {
                let orders = &context.decisions.facts(standing.doc).orders;
                let claimed = orders.contains(&order_id(order.id));
                context.counts.found_again += u64::from(claimed);
                require(!claimed || order.landed, "I8", || {
                    format!("{order:?} is found and has not happened")
                })?;
                world.person = Person::Away;
                context.moves.push(((Who::Person, "finds it done"), world));
                return Ok(());
            }
            Outcome::Refused(refusal) => {
                let planned = matches!(
                    refusal,
                    Refusal::NotKept { .. } | Refusal::Held { .. } | Refusal::Failed
                );
                require(planned, "C7", || format!("{order:?}: {refusal}"))?;
                world.person = Person::Away;
                context.moves.push(((Who::Person, "is refused"), world));
                return Ok(());
            }
        };
        if begins == Begins::Unmarked {
            world.marker = true;
            world.person = Person::Writes(order, standing, Begins::Marked);
            context
                .moves
                .push(((Who::Person, "leaves the marker"), world));
            return Ok(());
        }
        let again = |mut world: World| {
            if let Person::Writes(order, ..) = world.person {
                world.person = Person::Looks(order);
            }
            world
        };
        let takes = self.takes(standing.tag, context.setup);
        let mut accepted = self.clone();
        if takes {
            accepted.accept(next, deed, context)?;
            let mut world = accepted.clone();
            world.person = Person::Away;
            context.moves.push(((Who::Person, "writes"), world));
        } else {
            context.counts.rejected += 1;
            context
                .moves
                .push(((Who::Person, "loses the race"), again(self.clone())));
        }
        if self.left.faults == 0 {
            return Ok(());
        }
        let trusts = context.setup.mutant == Mutant::UnknownOrderTrusted;
        let heard_nothing = |mut world: World| {
            world.left.faults -= 1;
            let landed = matches!(&world.person, Person::Writes(order, ..) if order.landed);
            require(!trusts || landed, "I8", || {
                format!("{order:?} is believed, and has not happened")
            })?;
            Ok(again(world))
        };
        if takes {
            context.counts.answers_lost += 1;
            let label = (Who::Person, "writes, and hears nothing");
            context.moves.push((label, heard_nothing(accepted)?));
            let mut late = self.clone();
            late.on_the_way.push(Late {
                doc: next,
                tag: standing.tag,
                deed,
                disowned: false,
            });
            context.counts.sent_late += 1;
            let label = (Who::Person, "writes; it stays on the way");
            context.moves.push((label, heard_nothing(late)?));
        }
        context.counts.requests_lost += 1;
        let label = (Who::Person, "writes; it never arrives");
        context.moves.push((label, heard_nothing(self.clone())?));
        Ok(())
    }
}

fn name(wish: Wish) -> &'static str {
    match wish {
        Wish::Pause => "wants a pause",
        Wish::Resume => "wants it to go on",
        Wish::Reset => "wants a reset",
        Wish::Rollback => "wants a rollback",
        Wish::Fail => "marks it failed",
        Wish::Unlock => "wants the lease to be free",
    }
}
